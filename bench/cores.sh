#!/bin/bash
# cores.sh - how a loader's rate grows with cores, and which number of threads it chooses.
#
#	bench/cores.sh pack BUILD KIT      copy programs and their libraries to the folder KIT
#	bench/cores.sh run KIT DIR [SCALE] measure in DIR, on a machine without Shoal's libraries
#
# SCALE divides the number of files: 1 takes 8 GB of disk and, on 16 cores, four minutes. Each row is
# the best of several runs, with the processor time per file of that run; "share" is the rate
# against the best pread loop of that set. The page cache is emptied by root, or by Shoal.
set -eu

pack() {
	local build=$1 kit=$2 program
	mkdir -p "$kit/lib"
	cp "$build/shoal" "$build/bench/bench_engine" "$build/bench/pread_loop" "$kit/"
	for program in "$kit"/{shoal,bench_engine,pread_loop}; do
		strip "$program"
		ldd "$program" | awk '$2 == "=>" { print $3 } $1 ~ /ld-linux/ { print $1 }' | xargs -r cp -Lt "$kit/lib"
	done
	cp "$0" "$kit/cores.sh"
	du -sh "$kit"
}

# Run a program of the kit with the kit's libraries, even its loader.
with() {
	local program=$1
	shift
	"$kit"/lib/ld-linux-x86-64.so.2 --library-path "$kit/lib" "$kit/$program" "$@"
}

# A tree of $2 files of $3 KB in folders of 1,000, written by a process per core.
make_files() {
	local dir=$1 nr=$2 kb=$3
	export dir kb
	head -c "$((kb * 1024))" /dev/urandom >"$dir.one"
	seq 0 $(((nr - 1) / 1000)) | xargs -P "$(nproc)" -I{} bash -c '
		d=$dir/$(printf %04d {}); mkdir -p "$d"; cd "$d"
		for i in 0 250 500 750; do
			tee $(seq -f f%04g $i $((i + 249))) <"$dir.one" >/dev/null
		done'
	find "$dir" -type f -printf '%p\t%s\n' | shuf >"$dir.list"
	sed "s|^$dir/||" "$dir.list" >"$dir.names"
	with shoal index "$dir" -o "$dir.cat" -q
}

drop() {
	sync
	if ! { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null; then
		with shoal read "$1.cat" --drop-cache --steps 1 --batch 1 >/dev/null 2>&1 || true
	fi
}

field() { grep -o "\"$1\": \"\?[^,\"}]*" <<<"$2" | head -1 | sed 's/^"[^"]*": "\?//'; }

row() { printf '%-6s %-5s %-34s %9.0f %7.2f  %s\n' "$@"; }

# SET STATE WORDS TRIES COMMAND...: the best line "RATE CPU NOTE" of several.
best() {
	local set=$1 state=$2 words=$3 tries=$4 line top=""
	shift 4
	for ((i = 0; i < tries; i++)); do
		[ "$state" = cold ] && drop "$set"
		line=$("$@") || line="0 0 failed"
		top=$(printf '%s\n%s\n' "$top" "$line" | sort -rg | head -1)
	done
	read -r rate cpu note <<<"$top"
	row "$(basename "$set")" "$state" "$words" "$rate" "$cpu" "$note"
}

loop() { with pread_loop "$2" buffered <"$1.list" | awk '{ print $1, $3 }'; }

engine() { # SET KIND IN_FLIGHT THREADS TRIES
	with bench_engine "$1" "$2" "$3" buffered "$5" "$4" <"$1.names" 2>&1 |
		awk -F'\t' '{ split($2, r, " "); split($4, c, " "); print r[1], c[1], $5 }' | sort -rg | head -1
}

shoal_read() {
	local set=$1 facts
	shift
	facts=$(with shoal read "$set.cat" --json --batch 256 --prefetch 8 "$@" 2>&1)
	echo "$(field samples_per_second "$facts") $(field cpu_us_per_sample "$facts") $(field engine "$facts"): $(grep -o '"engine_detail": "[^"]*' <<<"$facts" | cut -d'"' -f4)"
}

# Processor time and waits of each thread of one run, sampled while it runs.
threads_of() {
	local set=$1 facts
	shift
	"$kit"/lib/ld-linux-x86-64.so.2 --library-path "$kit/lib" "$kit/shoal" read "$set.cat" --batch 256 \
		--prefetch 8 --duration 4 "$@" >/dev/null 2>&1 &
	local pid=$!
	sleep 3.5
	for task in /proc/$pid/task/*; do
		awk -v t="${task##*/}" '{ n = split($0, f, ")"); split(f[n], g, " "); printf "%s user %d sys %d", t, g[12], g[13] }' "$task/stat"
		awk '{ printf " run-wait %.0f ms", $2 / 1e6 }' "$task/schedstat" 2>/dev/null || true
		awk '/ctxt/ { printf " %s", $0 } END { print "" }' "$task/status"
	done
	wait $pid || true
}

run() {
	kit=$1
	local dir=$2 scale=${3:-1} cores n set
	cores=$(nproc)
	mkdir -p "$dir"
	echo "# $(nproc) cores, $(uname -r), $(stat -f -c %T "$dir"), $(date -u +%H:%M:%S)"
	make_files "$dir/16k" $((200000 / scale)) 16
	make_files "$dir/300k" $((16000 / scale)) 300
	echo "# files made $(date -u +%H:%M:%S)"
	row set state what 0 0 "(rate: files/s; us of CPU per file)"
	for set in "$dir/16k" "$dir/300k"; do
		local tries=3 epochs=$((20))
		with pread_loop "$cores" buffered <"$set.list" >/dev/null
		for n in 1 2 4 8 "$cores"; do
			[ "$n" -gt "$cores" ] || best "$set" warm "pread loop, $n threads" $tries loop "$set" "$n"
		done
		for n in 1 2 4 8 12 "$((cores - 1))" "$cores" "$((cores + 4))"; do
			best "$set" warm "engine, --threads $n" 1 engine "$set" auto 256 "$n" 3
		done
		best "$set" warm "engine as chosen" 1 engine "$set" auto 64 0 6
		for n in 1 2 4 8 "$((cores - 1))" "$cores"; do
			best "$set" warm "read --threads $n" 2 shoal_read "$set" --epochs 3 --threads "$n"
		done
		best "$set" warm "read as chosen" 2 shoal_read "$set" --epochs $epochs
		best "$set" warm "read as chosen, one epoch" 2 shoal_read "$set"
		best "$set" warm "read as chosen, defaults" 2 shoal_read "$set" --epochs 5 --batch 32 --prefetch 2
		best "$set" warm "read --engine threads" 2 shoal_read "$set" --epochs 5 --engine threads
		best "$set" warm "read --engine uring" 1 shoal_read "$set" --epochs 2 --engine uring
	done
	best "$dir/16k" warm "null store, no bytes (delivery)" 2 shoal_read "$dir/16k" --epochs 5 --data "null:fill=none" --object-size 16384
	echo "# warm done $(date -u +%H:%M:%S); threads of a run as chosen: 16k, then 300k"
	threads_of "$dir/16k"
	threads_of "$dir/300k"
	for set in "$dir/300k" "$dir/16k"; do
		for n in 16 32 64; do
			best "$set" cold "pread loop, $n threads" 1 loop "$set" "$n"
		done
		best "$set" cold "read as chosen" 2 shoal_read "$set"
		best "$set" cold "read as chosen, 256 in flight" 1 shoal_read "$set" --in-flight 256
		best "$set" cold "read --threads 32" 1 shoal_read "$set" --threads 32
		best "$set" cold "read --engine uring" 1 shoal_read "$set" --engine uring
		best "$set" cold "read --direct" 1 shoal_read "$set" --direct
		echo "# $(date -u +%H:%M:%S)"
	done
}

case ${1:-} in
pack) pack "$2" "$3" ;;
run) run "$2" "$3" "${4:-1}" ;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
