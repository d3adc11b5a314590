/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_HPP
#define GPUSHARE_HPP
/*
 * gpushare.h for C++17: objects are closed at the end of their scope, and a call that fails throws
 * gpushare::error with the status and the text of gpushare_explain(). Nothing else is added; get()
 * returns the handle for C calls. Objects can be moved, but not copied. They may end in any order:
 * a session stays open while a buffer, event or mirror of it exists. A moved-from object can only
 * be destroyed or assigned to.
 */
#if __cplusplus < 201703L
#error "gpushare.hpp needs C++17: compile with -std=c++17"
#else
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpushare.h"

namespace gpushare
{

/* what() is gpushare_explain(): what failed, why, and what to do. */
class error : public std::runtime_error
{
      public:
	explicit error(int status)
	    : std::runtime_error(*gpushare_explain() ? gpushare_explain()
						     : gpushare_status_text(status)),
	      status_(status)
	{
	}
	int status() const noexcept
	{
		return status_;
	}

      private:
	int status_;
};

inline void check(int status)
{
	if (status)
		throw error(status);
}

namespace detail
{
/* A callback for C code. No exception may pass through C code, so visit() stores it, and end()
 * throws it. */
template <class F, class... A> struct visitor {
	F &call;
	std::exception_ptr thrown = nullptr;

	static int visit(A... arguments, void *user) noexcept
	{
		auto self = static_cast<visitor *>(user);
		try {
			self->call(arguments...);
			return 0;
		} catch (...) {
			self->thrown = std::current_exception();
			return 1;
		}
	}
	void end(int status) const
	{
		if (thrown)
			std::rethrow_exception(thrown);
		check(status);
	}
};
} // namespace detail

/* A named buffer. The destructor calls gpushare_detach() if it was attached, else
 * gpushare_free(). */
class buffer
{
      public:
	buffer(buffer &&other) noexcept
	    : session_(std::move(other.session_)), handle_(std::exchange(other.handle_, nullptr)),
	      end_(other.end_)
	{
	}
	buffer &operator=(buffer &&other) noexcept
	{
		std::swap(session_, other.session_);
		std::swap(handle_, other.handle_);
		std::swap(end_, other.end_);
		return *this;
	}
	~buffer()
	{
		end_(handle_);
	}

	/* Ends it now; throws if that fails. */
	void close()
	{
		check(end_(std::exchange(handle_, nullptr)));
	}
	::gpushare_buffer *get() const noexcept
	{
		return handle_;
	}
	/* A CUdeviceptr */
	std::uint64_t pointer() const noexcept
	{
		return gpushare_pointer(handle_);
	}
	std::size_t size() const noexcept
	{
		return gpushare_size(handle_);
	}
	int device() const noexcept
	{
		return gpushare_device(handle_);
	}
	bool is_read_only() const noexcept
	{
		return gpushare_is_read_only(handle_);
	}
	bool was_adopted() const noexcept
	{
		return gpushare_was_adopted(handle_);
	}
	::gpushare_info info() const
	{
		::gpushare_info info;
		check(gpushare_buffer_info(handle_, &info));
		return info;
	}
	void copy_from(void *host, std::size_t length, std::size_t offset = 0) const
	{
		check(gpushare_copy_from(handle_, offset, host, length));
	}
	void copy_to(const void *host, std::size_t length, std::size_t offset = 0) const
	{
		check(gpushare_copy_to(handle_, offset, host, length));
	}
	/* Calls sink(const void *data, std::size_t size) for each piece, in order. */
	template <class Sink>
	void read(Sink &&sink, std::size_t length, std::size_t offset = 0) const
	{
		detail::visitor<Sink, const void *, std::size_t> visitor{sink};
		visitor.end(gpushare_read(handle_, offset, length, visitor.visit, &visitor));
	}
	/* source(void *data, std::size_t size) must fill all `size` bytes. */
	template <class Source>
	void write(Source &&source, std::size_t length, std::size_t offset = 0) const
	{
		detail::visitor<Source, void *, std::size_t> visitor{source};
		visitor.end(gpushare_write(handle_, offset, length, visitor.visit, &visitor));
	}
	/* The tags as they are now. Asks the registry. */
	std::map<std::string, std::string> tags() const
	{
		struct ::gpushare_tag rows[GPUSHARE_TAGS_MAX];
		std::size_t count = 0;
		check(gpushare_tags(handle_, rows, &count));
		std::map<std::string, std::string> found;
		for (std::size_t i = 0; i < count; i++)
			found[rows[i].key] = rows[i].value;
		return found;
	}
	/* Whether the buffer still has its name. */
	enum ::gpushare_state state() const
	{
		enum ::gpushare_state state;
		check(gpushare_state(handle_, &state));
		return state;
	}

	/* Returns the publication's number, or 0 if that is assigned later. `stream` is a
	 * CUstream. */
	std::uint64_t publish(void *stream) const
	{
		std::uint64_t sequence = 0;
		check(gpushare_publish(handle_, stream, &sequence));
		return sequence;
	}
	/* Shows a staged buffer (GPUSHARE_FLAG_STAGED) to other processes. */
	void commit() const
	{
		check(gpushare_commit(handle_));
	}
	/* Gives names to parts of vmm memory of this process: to all of them, or to none. */
	void share_parts(const ::gpushare_part *parts, std::size_t count) const
	{
		check(gpushare_share_parts(handle_, parts, count));
	}
	std::uint64_t publish() const
	{
		std::uint64_t sequence = 0;
		check(gpushare_publish_host(handle_, &sequence));
		return sequence;
	}
	void acquire(void *stream, std::uint64_t at_least) const
	{
		check(gpushare_acquire(handle_, stream, at_least));
	}
	/* Returns the latest number. Throws GPUSHARE_E_OWNER_GONE if `at_least` will not come. */
	std::uint64_t acquire(std::uint64_t at_least, int timeout_ms = -1) const
	{
		std::uint64_t sequence = 0;
		check(gpushare_acquire_host(handle_, at_least, timeout_ms, &sequence));
		return sequence;
	}
	void release(void *stream, std::uint64_t sequence) const
	{
		check(gpushare_release(handle_, stream, sequence));
	}
	void release(std::uint64_t sequence) const
	{
		check(gpushare_release_host(handle_, sequence));
	}
	void reclaim(void *stream, std::uint64_t sequence) const
	{
		check(gpushare_reclaim(handle_, stream, sequence));
	}
	void reclaim(std::uint64_t sequence, int timeout_ms = -1) const
	{
		check(gpushare_reclaim_host(handle_, sequence, timeout_ms));
	}
	/* Nothing from the returned number on is reclaimed before this process releases it. */
	std::uint64_t join() const
	{
		std::uint64_t first = 0;
		check(gpushare_join(handle_, &first));
		return first;
	}
	void leave() const
	{
		check(gpushare_leave(handle_));
	}
	std::uint64_t sequence() const
	{
		std::uint64_t published = 0;
		check(gpushare_sequence(handle_, &published));
		return published;
	}
	/* Throws GPUSHARE_E_OWNER_GONE once nothing more will be published. */
	void order_status() const
	{
		check(gpushare_order_status(handle_));
	}
	enum ::gpushare_ordering ordering() const noexcept
	{
		return gpushare_ordering(handle_);
	}

      private:
	friend class session;
	friend class mirror;
	using ending = int(::gpushare_buffer *);

	buffer(std::shared_ptr<::gpushare_session> session, ending *end)
	    : session_(std::move(session)), end_(end)
	{
	}

	std::shared_ptr<::gpushare_session> session_;
	::gpushare_buffer *handle_ = nullptr;
	ending *end_;
};

/* A named event: the destructor closes it. Streams are CUstream or cudaStream_t. */
class event
{
      public:
	event(event &&other) noexcept
	    : session_(std::move(other.session_)), handle_(std::exchange(other.handle_, nullptr))
	{
	}
	event &operator=(event &&other) noexcept
	{
		std::swap(session_, other.session_);
		std::swap(handle_, other.handle_);
		return *this;
	}
	~event()
	{
		gpushare_event_close(handle_);
	}

	/* Ends it now; throws if that fails. */
	void close()
	{
		check(gpushare_event_close(std::exchange(handle_, nullptr)));
	}
	void record(void *stream = nullptr) const
	{
		check(gpushare_event_record(handle_, stream));
	}
	void wait(void *stream = nullptr) const
	{
		check(gpushare_event_wait(handle_, stream));
	}
	/* Is the work that was recorded last done? */
	bool query() const
	{
		int status = gpushare_event_query(handle_);
		if (status == GPUSHARE_E_NOT_READY)
			return false;
		check(status);
		return true;
	}
	/* False: not done within that time. A negative time has no limit. */
	bool wait_host(int timeout_ms = -1) const
	{
		int status = gpushare_event_wait_host(handle_, timeout_ms);
		if (status == GPUSHARE_E_TIMED_OUT)
			return false;
		check(status);
		return true;
	}
	::gpushare_event *get() const noexcept
	{
		return handle_;
	}
	/* A CUevent */
	void *handle() const noexcept
	{
		return gpushare_event_handle(handle_);
	}
	::gpushare_info info() const
	{
		::gpushare_info info;
		check(gpushare_event_info(handle_, &info));
		return info;
	}

      private:
	friend class session;

	explicit event(std::shared_ptr<::gpushare_session> session) : session_(std::move(session))
	{
	}

	std::shared_ptr<::gpushare_session> session_;
	::gpushare_event *handle_ = nullptr;
};

class session
{
      public:
	explicit session(const ::gpushare_open_options &options = {})
	{
		::gpushare_session *opened = nullptr;
		check(gpushare_open(&options, &opened));
		handle_.reset(opened, gpushare_close);
	}

	::gpushare_session *get() const noexcept
	{
		return handle_.get();
	}
	buffer share(const std::string &name, std::uint64_t pointer, std::size_t size,
		     const ::gpushare_share_options &options = {}) const
	{
		buffer made(handle_, gpushare_free);
		check(gpushare_share_with(get(), name.c_str(), pointer, size, &options,
					  &made.handle_));
		return made;
	}
	buffer alloc(const std::string &name, std::size_t size) const
	{
		buffer made(handle_, gpushare_free);
		check(gpushare_alloc_with(get(), name.c_str(), size, nullptr, &made.handle_));
		return made;
	}
	buffer alloc(const std::string &name, std::size_t size,
		     const ::gpushare_alloc_options &options) const
	{
		buffer made(handle_, gpushare_free);
		check(gpushare_alloc_with(get(), name.c_str(), size, &options, &made.handle_));
		return made;
	}
	/* Throws GPUSHARE_E_INVALID for 0 bytes, or for more than a size_t holds. */
	buffer alloc_array(const std::string &name, std::size_t count, std::size_t element_size,
			   const ::gpushare_alloc_options &options) const
	{
		buffer made(handle_, gpushare_free);
		check(gpushare_alloc_array(get(), name.c_str(), count, element_size, &options,
					   &made.handle_));
		return made;
	}
	buffer attach(const std::string &name, const ::gpushare_attach_options &options = {}) const
	{
		buffer made(handle_, gpushare_detach);
		check(gpushare_attach(get(), name.c_str(), &options, &made.handle_));
		return made;
	}
	event event_create(const std::string &name, int device = -1, unsigned int flags = 0,
			   const ::gpushare_share_options &options = {}) const
	{
		event made(handle_);
		check(gpushare_event_create_with(get(), name.c_str(), device, flags, &options,
						 &made.handle_));
		return made;
	}
	event event_open(const std::string &name,
			 const ::gpushare_event_options &options = {}) const
	{
		event made(handle_);
		check(gpushare_event_open(get(), name.c_str(), &options, &made.handle_));
		return made;
	}
	void unlink(const std::string &name) const
	{
		check(gpushare_unlink(get(), name.c_str()));
	}
	/* Sets all of these tags, or none; "" removes a tag. */
	void tag(const std::string &name, const std::map<std::string, std::string> &tags) const
	{
		std::vector<struct ::gpushare_tag> rows(tags.size());
		auto row = rows.begin();
		for (const auto &[key, value] : tags) {
			put(row->key, key);
			put((row++)->value, value);
		}
		check(gpushare_tag(get(), name.c_str(), rows.data(), rows.size()));
	}
	::gpushare_info stat(const std::string &name) const
	{
		::gpushare_info info;
		check(gpushare_stat(get(), name.c_str(), &info));
		return info;
	}
	std::vector<::gpushare_info> list(const std::string &glob = "*") const
	{
		return listed(gpushare_list, glob);
	}
	std::vector<::gpushare_info> list_events(const std::string &glob = "*") const
	{
		return listed(gpushare_list_events, glob);
	}
	/* Buffers that their owners have freed and hold for attachers. */
	std::vector<::gpushare_info> list_deferred(const std::string &glob = "*") const
	{
		return listed(gpushare_list_deferred, glob);
	}
	/* The processes that have a buffer attached; `generation` 0: the buffer that has the name
	 * now. */
	std::vector<::gpushare_holder> holders(const std::string &name,
					       std::uint64_t generation = 0) const
	{
		std::vector<::gpushare_holder> found;
		auto add = [&](const ::gpushare_holder *holder) { found.push_back(*holder); };
		detail::visitor<decltype(add), const ::gpushare_holder *> visitor{add};
		visitor.end(
		    gpushare_holders(get(), name.c_str(), generation, visitor.visit, &visitor));
		return found;
	}
	/* The registry's load. */
	::gpushare_registry_info registry() const
	{
		::gpushare_registry_info info;
		check(gpushare_stat_registry(get(), &info));
		return info;
	}

      private:
	std::vector<::gpushare_info> listed(decltype(gpushare_list) *list,
					    const std::string &glob) const
	{
		std::vector<::gpushare_info> found;
		auto add = [&](const ::gpushare_info *info) { found.push_back(*info); };
		detail::visitor<decltype(add), const ::gpushare_info *> visitor{add};
		visitor.end(list(get(), glob.c_str(), visitor.visit, &visitor));
		return found;
	}
	/* A text that is too long for its field gets no final NUL, so gpushare_tag() refuses it. */
	template <std::size_t N> static void put(char (&room)[N], const std::string &text)
	{
		text.copy(room, N);
	}

	std::shared_ptr<::gpushare_session> handle_;
};

/*
 * A pinned host copy of a part of a buffer. If it is for GPUSHARE_WRITE, the destructor writes it
 * back, unless an exception ends the scope: the copy may be half done. The destructor can't report
 * a failure. close() can, and then leaves the mirror open with its bytes.
 */
class mirror
{
      public:
	mirror(const buffer &of, unsigned int access) : mirror(of, access, 0, of.size())
	{
	}
	mirror(const buffer &of, unsigned int access, std::size_t offset, std::size_t length)
	    : session_(of.session_), exceptions_(std::uncaught_exceptions())
	{
		check(gpushare_mirror_open(of.get(), offset, length, access, &handle_));
	}
	mirror(mirror &&other) noexcept
	    : session_(std::move(other.session_)), handle_(std::exchange(other.handle_, nullptr)),
	      exceptions_(other.exceptions_)
	{
	}
	mirror &operator=(mirror &&other) noexcept
	{
		std::swap(session_, other.session_);
		std::swap(handle_, other.handle_);
		std::swap(exceptions_, other.exceptions_);
		return *this;
	}
	~mirror()
	{
		if (std::uncaught_exceptions() > exceptions_ || gpushare_mirror_close(handle_))
			gpushare_mirror_drop(handle_);
	}

	void sync() const
	{
		check(gpushare_mirror_sync(handle_));
	}
	void close()
	{
		check(gpushare_mirror_close(handle_));
		handle_ = nullptr;
	}
	void drop() noexcept
	{
		gpushare_mirror_drop(std::exchange(handle_, nullptr));
	}
	::gpushare_mirror *get() const noexcept
	{
		return handle_;
	}
	void *data() const noexcept
	{
		return gpushare_mirror_data(handle_);
	}
	template <class T> T *as() const noexcept
	{
		return static_cast<T *>(data());
	}
	std::size_t size() const noexcept
	{
		return gpushare_mirror_size(handle_);
	}

      private:
	std::shared_ptr<::gpushare_session> session_;
	::gpushare_mirror *handle_ = nullptr;
	int exceptions_;
};

/* A buffer's memory, mapped for the CPU. A map stays valid when its buffer and session end. */
class map
{
      public:
	map(const buffer &of, unsigned int access) : map(of, access, 0, of.size())
	{
	}
	map(const buffer &of, unsigned int access, std::size_t offset, std::size_t length,
	    const ::gpushare_map_options &options = {})
	{
		check(gpushare_map_with(of.get(), offset, length, access, &options, &handle_));
	}
	map(map &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	map &operator=(map &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	~map()
	{
		gpushare_unmap(handle_);
	}

	void close()
	{
		check(gpushare_unmap(handle_));
		handle_ = nullptr;
	}
	void flush(std::size_t offset, std::size_t length) const
	{
		check(gpushare_map_flush(handle_, offset, length));
	}
	void invalidate(std::size_t offset, std::size_t length) const
	{
		check(gpushare_map_invalidate(handle_, offset, length));
	}
	struct ::gpushare_map_info info() const
	{
		struct ::gpushare_map_info info;
		check(gpushare_map_info(handle_, &info));
		return info;
	}
	struct ::gpushare_map *get() const noexcept
	{
		return handle_;
	}
	void *data() const noexcept
	{
		return gpushare_map_data(handle_);
	}
	template <class T> T *as() const noexcept
	{
		return static_cast<T *>(data());
	}
	std::size_t size() const noexcept
	{
		return gpushare_map_size(handle_);
	}

      private:
	struct ::gpushare_map *handle_ = nullptr;
};

/* Reports what happens to buffers from now on. A watch stays open when its session ends. */
class watch
{
      public:
	explicit watch(const session &of, const std::string &glob = "*")
	{
		check(gpushare_watch(of.get(), glob.c_str(), &handle_));
	}
	watch(watch &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	watch &operator=(watch &&other) noexcept
	{
		std::swap(handle_, other.handle_);
		return *this;
	}
	~watch()
	{
		gpushare_watch_close(handle_);
	}

	/* Empty if nothing happened within that time. A negative time has no limit. */
	std::optional<::gpushare_notice> next(int timeout_ms = -1) const
	{
		::gpushare_notice notice;
		int status = gpushare_watch_next(handle_, timeout_ms, &notice);

		if (status == GPUSHARE_E_TIMED_OUT)
			return std::nullopt;
		check(status);
		return notice;
	}
	/* For poll(2): see gpushare_watch_fd(). */
	int fd() const noexcept
	{
		return gpushare_watch_fd(handle_);
	}
	struct ::gpushare_watch *get() const noexcept
	{
		return handle_;
	}

      private:
	struct ::gpushare_watch *handle_ = nullptr;
};

} // namespace gpushare

#endif /* C++17 */
#endif
