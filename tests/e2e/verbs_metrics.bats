#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare metrics: the registry's numbers in Prometheus' format.
load helpers

# metrics: each sample, checked and printed by a parser of the Prometheus format
metrics() {
	gpushare metrics >"$WORK/metrics"
	awk -f "$BATS_TEST_DIRNAME/prometheus.awk" "$WORK/metrics"
}

# sample SERIES: the value of SERIES
sample() {
	awk -v series="$1" '$1 == series { print $2; found = 1 } END { exit !found }' "$WORK/samples"
}

shared() {
	begin api "$BIN/api_app" open alloc=a,weights,1Mi alloc=b,kv,2Mi make=k,kept,2Mi,keep touch="$WORK/up" \
		await="$WORK/more" free=b touch="$WORK/freed" await="$WORK/end"
}

@test "the parser that this is held against refuses what is none" {
	for text in 'x 1' '# HELP x
x 1' '# HELP x of
# TYPE x gauge
x{a="b} 1' '# HELP x of
# TYPE x counter
x 1' '# HELP x of
# TYPE x gauge
x 1
x 1' '# HELP x of
# TYPE x gauge
x{a="b\"} 1' '# HELP x of
# TYPE x gauge
x one' '# HELP x of
# TYPE y gauge
y 1' '# HELP x_total of
# TYPE x_total counter
x_total -1'; do
		run -1 awk -f "$BATS_TEST_DIRNAME/prometheus.awk" <<<"$text"
	done
	# shellcheck disable=SC1003 # a backslash
	run -0 awk -f "$BATS_TEST_DIRNAME/prometheus.awk" <<<'# HELP x_total of
# TYPE x_total counter
x_total{a="b \\ \" \n",c=""} 1.5e3'
	has "$output" '1.5e3'
}

@test "metrics: names, memory, attachments, deferred frees, requests and refusals" {
	shared
	begin other "$BIN/api_app" open attach=w,weights attach=v,kv touch="$WORK/has" await="$WORK/end"
	gpushare stat nobody 2>/dev/null || true
	metrics >"$WORK/samples"
	equal "$(sample gpushare_up)" 1
	equal "$(sample gpushare_names)" 3
	[ "$(sample gpushare_lock_held_max_us)" -ge 1 ]
	[ "$(sample gpushare_lock_held_max_us)" -lt 1000000 ]
	equal "$(sample 'gpushare_buffers{backing="ipc"}')" 2
	equal "$(sample 'gpushare_buffer_bytes{backing="ipc"}')" 4194304
	equal "$(sample 'gpushare_buffers{backing="vmm"}')" 1
	equal "$(sample gpushare_kept_bytes)" 2097152
	equal "$(sample gpushare_attachments)" 2
	equal "$(sample gpushare_deferred_buffers)" 0
	equal "$(sample 'gpushare_requests_total{verb="share"}')" 3
	equal "$(sample 'gpushare_requests_total{verb="attach"}')" 2
	equal "$(sample 'gpushare_requests_total{verb="tag"}')" 0
	equal "$(sample 'gpushare_refusals_total{status="E_NOT_FOUND"}')" 1
	equal "$(sample 'gpushare_registry_info{version="'"$(gpushare --version | cut -d ' ' -f 2)"'"}')" 1
	started=$(sample gpushare_start_time_seconds)
	[ "${started%.*}" -gt $(($(date +%s) - 300)) ]
	[ "${started%.*}" -le "$(date +%s)" ]
	resume more freed
	metrics >"$WORK/samples"
	equal "$(sample gpushare_deferred_buffers)" 1
	equal "$(sample gpushare_deferred_bytes)" 2097152
	equal "$(sample gpushare_names)" 2
}

@test "metrics --json has the same numbers" {
	needs jq
	shared
	gpushare metrics --json >"$WORK/json"
	equal "$(jq -c '[.names, .backings.ipc.names, .backings.vmm.bytes, .requests_by_verb.share, .deferred]' \
		"$WORK/json")" '[3,2,2097152,3,0]'
	equal "$(jq -r .version "$WORK/json")" "$(gpushare --version | cut -d ' ' -f 2)"
	equal "$(jq -r .pid "$WORK/json")" "$(registry_pids)"
}

@test "the Grafana dashboard asks for metrics and labels that there are" {
	needs jq
	shared
	gpushare stat nobody 2>/dev/null || true # a refusal, so that there is one to label
	metrics >"$WORK/samples"
	dashboard=$ROOT/tools/packages/grafana.json
	equal "$(jq '[.panels[].id] | length == (unique | length)' "$dashboard")" true
	jq -r '.panels[].targets[].expr, .templating.list[].query' "$dashboard" | grep -o 'gpushare_[a-z_]*' | sort -u >"$WORK/asked"
	sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$WORK/metrics" | sort >"$WORK/printed"
	equal "$(comm -23 "$WORK/asked" "$WORK/printed")" ""
	# each metric is on the dashboard, but for the version
	equal "$(comm -13 "$WORK/asked" "$WORK/printed")" gpushare_registry_info
	# the labels of those that have samples here
	jq -r '.panels[].targets[] | (.expr | capture("(?<metric>gpushare_[a-z_]*)").metric) + " " +
		(.legendFormat | [scan("{{([a-z]+)}}")[0]] - ["instance"] | .[])' "$dashboard" >"$WORK/labels"
	[ "$(lines "$(<"$WORK/labels")")" -ge 7 ]
	while read -r metric label; do
		! grep -q "^$metric{" "$WORK/metrics" || grep -q "^$metric{$label=" "$WORK/metrics"
	done <"$WORK/labels"
}

@test "no registry: told so in metrics, said on stderr, exit code 1, none started" {
	no_registry_yet
	run -1 --separate-stderr gpushare metrics
	equal "$(awk -f "$BATS_TEST_DIRNAME/prometheus.awk" <<<"$output")" "gpushare_up 0"
	equal "$(lines "$stderr")" 1
	has "$stderr" "$GPUSHARE_DIR"
	run -1 --separate-stderr gpushare metrics --json
	equal "$output" ""
	equal "$(registry_pids)" ""
}

@test "a registry that ends under it, or makes no sense" {
	start fake "$BIN/tool_fake_registry" "$GPUSHARE_DIR" garbage
	await_file "$GPUSHARE_DIR/ready"
	GPUSHARE_TIMEOUT_MS=500 run -1 --separate-stderr gpushare metrics
	has "$output" "gpushare_up 0"
	equal "$(lines "$stderr")" 1
}

@test "metrics: bad words, and an output that can't be written" {
	run -2 --separate-stderr gpushare metrics x
	has "$stderr" "'x'"
	shared
	run -1 --separate-stderr sh -c 'gpushare metrics >/dev/full'
	has "$stderr" "standard output"
}
