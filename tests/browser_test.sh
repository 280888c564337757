#!/usr/bin/env bash
# The report of a run in a real browser, without a network: it loads, says its verdict, shows its pictures.
set -u
hastings=$1
browser=$(command -v chromium || command -v chromium-browser) || { echo "skipped: no chromium"; exit 77; }
command -v gnuplot >/dev/null || { echo "skipped: no gnuplot"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() { echo "FAILED: $1"; exit 1; }
flags=(--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$work/profile"
  --host-resolver-rules="MAP * ~NOTFOUND" --virtual-time-budget=10000)

"$hastings" sample ring --output run --draws 400 --max-iterations 50 -q >/dev/null || fail "sample"
"$hastings" report run >out || fail "report"
grep -q "run/report.html" out || fail "the page is named"
grep -qE "(src|href)=\"?(https?:)?//" run/report.html && fail "the page needs a network"

"$browser" "${flags[@]}" --dump-dom "file://$work/run/report.html" >dom.html 2>/dev/null || fail "chromium does not open it"
for id in verdict trace rank autocorrelation pairs levels learning meeting; do
  grep -q "id=\"$id\"" dom.html || fail "no $id"
done
# The browser decodes every picture: a script of the test asks it for their sizes.
sed 's#</body>#<pre id="sizes"></pre><script>window.onload=()=>{document.getElementById("sizes").textContent=[...document.images].map(i=>i.id+":"+i.naturalWidth).join(" ")}</script></body>#' \
  run/report.html >probe.html
sizes=$("$browser" "${flags[@]}" --dump-dom "file://$work/probe.html" 2>/dev/null | grep -o '<pre id="sizes">[^<]*')
echo "$sizes"
[ "$(echo "$sizes" | grep -oE ':[0-9]{3,}' | wc -l)" -eq 7 ] || fail "not all pictures are decoded: $sizes"

"$browser" "${flags[@]}" --window-size=1100,2600 --screenshot="$work/page.png" "file://$work/run/report.html" >/dev/null 2>&1
[ "$(stat -c %s page.png)" -gt 50000 ] || fail "the screenshot is empty"
echo "passed"
