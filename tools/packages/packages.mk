# SPDX-License-Identifier: MIT
# make install, uninstall, man, deb. Included by the Makefile.
# Install directories: the variables of the GNU Coding Standards, in capitals or in small letters.
PREFIX ?= $(or $(prefix),/usr/local)
EXEC_PREFIX ?= $(or $(exec_prefix),$(PREFIX))
BINDIR ?= $(or $(bindir),$(EXEC_PREFIX)/bin)
LIBDIR ?= $(or $(libdir),$(EXEC_PREFIX)/lib)
INCLUDEDIR ?= $(or $(includedir),$(PREFIX)/include)
DATAROOTDIR ?= $(or $(datarootdir),$(PREFIX)/share)
MANDIR ?= $(or $(mandir),$(DATAROOTDIR)/man)
DOCDIR ?= $(or $(docdir),$(DATAROOTDIR)/doc/gpushare)
# Files for other programs: below the prefix, where those programs look, and not below LIBDIR.
SYSTEMDDIR ?= $(PREFIX)/lib/systemd
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
CMAKEDIR ?= $(LIBDIR)/cmake/gpushare
BASHCOMPDIR ?= $(DATAROOTDIR)/bash-completion/completions
DATADIR ?= $(DATAROOTDIR)/gpushare
ZSHCOMPDIR ?= $(DATAROOTDIR)/zsh/site-functions

EXAMPLEDIR = $(DOCDIR)/examples
SYSTEMUNITDIR = $(SYSTEMDDIR)/system
USERUNITDIR = $(SYSTEMDDIR)/user

# Without scdoc, everything but the scdoc pages is installed, with a message.
HAVE_SCDOC := $(shell command -v scdoc)
# The manual: pages written in scdoc, and pages of the calls, made from the comments of gpushare.h.
CALLS := $(sort $(shell grep -oP '\bgpushare_[a-z_]+(?=\x28)' include/gpushare.h))
PAGES := $(patsubst tools/man/%.scd,%,$(wildcard tools/man/*.scd))
MAN := $(addprefix $(BUILD)/man/,$(if $(HAVE_SCDOC),$(PAGES)) gpushare.h.3 $(addsuffix .3,$(CALLS)))
# A sample of the registry's configuration, with every key. It is not installed where the registry reads it.
CONF := $(BUILD)/registry.conf
# A date that doesn't change between builds: that of the last commit, or of the header with the version.
ifndef SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH := $(or $(shell git log -1 --format=%ct 2>/dev/null),$(shell stat -c %Y include/gpushare.h))
endif
export SOURCE_DATE_EPOCH

# files_DIR: the files to install in $(DIR); in *.in the @WORDS@ are replaced. mode_DIR: their mode, default 644.
# own_dirs: directories that hold nothing of other packages.
PLACES := BINDIR LIBDIR INCLUDEDIR PKGCONFIGDIR CMAKEDIR MAN1DIR MAN3DIR MAN5DIR MAN7DIR MAN8DIR SYSTEMUNITDIR \
	USERUNITDIR TMPFILESDIR DATADIR EXAMPLEDIR BASHCOMPDIR ZSHCOMPDIR
own_dirs = $(DATADIR) $(EXAMPLEDIR) $(DOCDIR) $(CMAKEDIR)
mode_BINDIR := 755
files_BINDIR := $(addprefix $(BUILD)/,gpushare gpushare-registry)
files_LIBDIR := $(addprefix $(BUILD)/,libgpushare_shim.so libgpushare.so.0 libgpushare.a)
files_INCLUDEDIR := include/gpushare.h include/gpushare.hpp
files_PKGCONFIGDIR := tools/packages/gpushare.pc.in
files_CMAKEDIR := $(wildcard tools/packages/*.cmake.in)
$(foreach n,1 3 5 7 8,$(eval MAN$(n)DIR = $$(MANDIR)/man$(n))$(eval files_MAN$(n)DIR = $$(filter %.$(n),$$(MAN))))
files_SYSTEMUNITDIR := $(wildcard tools/systemd/system/*.in)
files_USERUNITDIR := $(wildcard tools/systemd/user/*.in)
files_TMPFILESDIR := tools/systemd/gpushare.conf
files_DATADIR := tools/packages/grafana.json
files_EXAMPLEDIR := $(filter-out %.md,$(wildcard tools/examples/*)) $(CONF)
files_BASHCOMPDIR := $(wildcard tools/completions/*.bash)
files_ZSHCOMPDIR := $(wildcard tools/completions/_*)

DEBDIR ?= $(BUILD)/deb
# TO_*: relative paths from the CMake files to headers and libraries, so that the tree can be moved as a whole.
SUBSTITUTE = -e 's|@PREFIX@|$(PREFIX)|; s|@BINDIR@|$(BINDIR)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	-e 's|@VERSION@|$(VERSION)|; s|@TO_INCLUDEDIR@|$(shell realpath -m --relative-to='$(CMAKEDIR)' '$(INCLUDEDIR)')|' \
	-e 's|@TO_LIBDIR@|$(shell realpath -m --relative-to='$(CMAKEDIR)' '$(LIBDIR)')|' \
	-e '/^@SERVICE@/{r tools/systemd/service.part' -e 'd}' -e '/^@SYSTEM@/{r tools/systemd/system.part' -e 'd}'

$(BUILD)/man/%: tools/man/%.scd tools/man/pages.py include/gpushare.h registry/state/limit.h registry/config.h \
		$(addprefix tools/,common/environment.h cli/options.c cli/verb_help.c cli/verbs.h data/dtype.h)
	$(call say,SCDOC,$@)
	@mkdir -p $(@D)
	$(Q)tools/man/pages.py page $< | scdoc >$@
# One run of pages.py makes the pages of all calls.
$(BUILD)/man/.calls: tools/man/pages.py include/gpushare.h
	$(call say,MAN,"$(@D)/*.3")
	@mkdir -p $(@D)
	$(Q)tools/man/pages.py calls $(@D) && touch $@
$(filter %.3,$(MAN)): $(BUILD)/man/.calls ;
$(CONF): tools/man/pages.py registry/state/limit.h registry/config.h
	@mkdir -p $(@D)
	$(Q)tools/man/pages.py conf >$@
man: $(MAN) $(CONF)
	@:

# put(DIR): install the plain files of DIR, then those with words to replace
define put
	$(Q)install -d '$(DESTDIR)$($(1))'
	$(if $(filter-out %.in,$(files_$(1))),$(Q)install -m $(or $(mode_$(1)),644) $(filter-out %.in,$(files_$(1))) '$(DESTDIR)$($(1))')
	$(Q)$(foreach f,$(filter %.in,$(files_$(1))),sed $(SUBSTITUTE) $(f) >'$(DESTDIR)$($(1))/$(notdir $(basename $(f)))' && \
		chmod 644 '$(DESTDIR)$($(1))/$(notdir $(basename $(f)))' &&) :

endef
installable: $(PRODUCTS) $(MAN) $(CONF)
	@:
# Only copy what was already built, with any flags.
install-files: $(MAN) $(CONF)
	$(foreach place,$(PLACES),$(if $(files_$(place)),$(call put,$(place))))
	$(Q)ln -sf libgpushare.so.0 '$(DESTDIR)$(LIBDIR)/libgpushare.so'
	$(Q)ln -sf gpushare '$(DESTDIR)$(BINDIR)/gpushare-attach'
	$(if $(HAVE_SCDOC),,@echo "skipped: manual pages of the programs: scdoc is not installed")
install: $(BUILD)/.checked
	@$(MAKE) --no-print-directory $(jobs) installable
	@$(MAKE) --no-print-directory install-files
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || ldconfig
	@[ -n '$(DESTDIR)' ] || $(MAKE) --no-print-directory install-hint
# Print a hint if LIBDIR is not among the loader's folders, which ldconfig lists.
install-hint:
	@PATH=$$PATH:/usr/sbin:/sbin ldconfig -vN 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p' | xargs -r realpath -m | \
		grep -qxF "$$(realpath -m '$(LIBDIR)')" || echo "libgpushare.so.0 is where the loader does not look:" \
		"run programs with LD_LIBRARY_PATH=$(LIBDIR), or link them with -Wl,-rpath,$(LIBDIR)"
uninstall:
	$(Q)rm -f $(foreach place,$(PLACES),$(foreach f,$(files_$(place)),'$(DESTDIR)$($(place))/$(patsubst %.in,%,$(notdir $(f)))')) \
		'$(DESTDIR)$(LIBDIR)/libgpushare.so' '$(DESTDIR)$(BINDIR)/gpushare-attach'
	$(Q)for own in $(own_dirs); do [ ! -d "$(DESTDIR)$$own" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$own"; done

deb: $(BUILD)/.checked
	@$(MAKE) --no-print-directory $(jobs) installable
	@$(MAKE) --no-print-directory deb-files
deb-files:
	@VERSION=$(VERSION) DEBDIR=$(abspath $(DEBDIR)) tools/packages/deb.sh
.PHONY: install install-hint installable install-files uninstall man deb deb-files
