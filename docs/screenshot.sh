#!/usr/bin/env bash
# Takes docs/report.png, the top of the demo's report: make demo && docs/screenshot.sh
# As root: CHROMIUM='chromium --no-sandbox' docs/screenshot.sh
set -euo pipefail
cd "$(dirname "$0")/.."
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
${CHROMIUM:-chromium} --headless --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
  --screenshot="$PWD/docs/report.png" --window-size=1060,1050 "file://$PWD/runs/demo/C/report.html"
