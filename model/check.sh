#!/usr/bin/env bash
# Checks the model exhaustively at small bounds, or at larger ones with
# "full", and checks that each mutant breaks it.
# usage: bash model/check.sh [full]
set -u
cd "$(dirname "$0")" || exit 1
model=$PWD/lease.pml
mode=${1:-small}
for tool in spin gcc; do
	command -v "$tool" >/dev/null || {
		echo "model: $tool is not installed (Debian: apt-get install spin gcc)" >&2
		exit 1
	}
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# explore NAME FLAGS...: leaves pan's report in $report
explore() {
	local name=$1 dir=$work/$1
	shift
	mkdir "$dir" && cd "$dir" || exit 1
	if ! spin -a "$@" "$model" >spin.out 2>&1 || ! gcc ${flags:--O1} -DSAFETY -o pan pan.c >gcc.out 2>&1; then
		cat spin.out gcc.out 2>/dev/null
		echo "model: $name does not compile" >&2
		exit 1
	fi
	./pan -E -m1000000 -w"${hash:-20}" >pan.out 2>&1
	report=$dir/pan.out
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$report")
}

# holds NAME FLAGS...: no violation, and the search was complete
holds() {
	local began=$SECONDS
	explore "$@"
	if grep -q 'errors: 0' "$report" && ! grep -Eq 'Search not completed|max search depth too small|out of memory' "$report"; then
		echo "ok    $1: $states states, no violation, $((SECONDS - began)) s"
	else
		echo "FAIL  $1 ($*)"
		cat "$report"
		failed=1
	fi
}

# caught NAME FLAGS...: an assertion is violated
caught() {
	explore "$@"
	if grep -q 'assertion violated' "$report"; then
		echo "ok    $1: caught, $(sed -n 's/^pan:1: \(assertion violated .*\) (at depth.*/\1/p' "$report")"
	else
		echo "FAIL  $1: the mutant survived ($*)"
		cat "$report"
		failed=1
	fi
}

holds four-incarnations -DTERMS=4 -DTMAX=3
holds wide-ticks -DTERMS=3 -DTMAX=4 -DTICK=2
holds loses-its-tail -DLOSSY -DWINDOW=1 -DTERMS=2 -DTMAX=4 -DREPLAY=0
if [ "$mode" = full ]; then
	hash=24 flags="-O2 -DCOLLAPSE -DMEMLIM=12000"
	holds longer-time -DTERMS=3 -DTMAX=4
	holds replayed-after-failover -DLOSSY -DWINDOW=1 -DTERMS=2 -DTMAX=4
	holds more-time -DTERMS=4 -DTMAX=4
	holds more-time-wide-ticks -DTERMS=4 -DTMAX=4 -DTICK=2
	holds two-takeovers-on-lossy-store -DLOSSY -DWINDOW=1 -DTERMS=3 -DTMAX=4 -DREPLAY=0
	hash=20 flags=
fi
caught successor-starts-at-now -DSTART_AT_NOW
caught extend-without-token -DNO_TOKEN
caught release-lowers-high-water -DRELEASE_LOWERS
caught publish-before-reply -DPUBLISH_EARLY
caught grants-share-tick -DTICK=2 -DSHARED_TICK
caught lead-instead-of-waiting -DLOSSY -DLEAD -DWINDOW=1 -DTERMS=3 -DTMAX=5
exit $failed
