#!/usr/bin/env bash
# Our files in the hands of others: NetCDF and Stan CSV opened by ArviZ, Stan CSV by R's posterior; the same ESS and
# R-hat as ours to 1e-6.  usage: readers_test.sh HASTINGS SOURCE
set -u
hastings=$1
source=$2
python="${XDG_DATA_HOME:-$HOME/.local/share}/hastings/readers/bin/python"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$python" ] && ! command -v Rscript > /dev/null; then
  echo "Neither ArviZ (scripts/setup --test) nor R is here: skipped."
  exit 77
fi
failed=0
"$hastings" sample "script:$source/examples/script/schools.py" -o "$work/schools" -q --save-warmup --max-iterations 200 > /dev/null || exit 1
"$hastings" sample logistic:simulated -o "$work/logistic" -q --draws 777 --chains 3 > /dev/null || exit 1
for run in schools logistic; do "$hastings" convert "$work/$run" --to netcdf || exit 1; done
if [ -x "$python" ]; then
  "$python" "$source/tests/ecosystem/arviz_reads.py" "$work" || failed=1
else
  echo "ArviZ is not here: its part is skipped."
fi
if Rscript -e 'quit(status = !(requireNamespace("posterior", quietly = TRUE) && requireNamespace("jsonlite", quietly = TRUE)))' > /dev/null 2>&1; then
  Rscript "$source/tests/ecosystem/posterior_reads.R" "$work/schools" "$work/logistic" || failed=1
else
  echo "R's posterior is not here: its part is skipped."
fi
exit $failed
