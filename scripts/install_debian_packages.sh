#!/usr/bin/env bash
# Installs the Debian packages that some tests use (or those named as arguments), where that is possible.
# Does nothing when they are there; a test whose package is missing is skipped and says so.
set -euo pipefail

needed=(
  postgresql              # the ledger's tests start a server of their own
  chromium                # the page is tested in a real browser
  openjdk-17-jre-headless # Spark runs on it
  wrk                     # puts load on the service
)
if [ $# -gt 0 ]; then
  needed=("$@")
fi

is_installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "No apt-get here: Debian packages are not installed (${needed[*]})"
  exit 0
fi

missing=()
for package in "${needed[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "Not root: to run every test, install by hand: apt-get install ${missing[*]}"
  exit 0
fi

echo "Installing Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -qq && apt-get install -qq --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 5 "$log"
  echo "apt-get could not install ${missing[*]}: the tests that need them will be skipped"
fi
