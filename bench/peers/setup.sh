#!/usr/bin/env bash
# Installs what `npm run bench:peers` compares with, each in a virtual environment of its own:
#   bench/peers/setup.sh            all of them, and the load client perf_analyzer
#   bench/peers/setup.sh fastapi    the named ones
# They go to .tools/peers, which git does not keep. An environment that is there is left as it is.
# Python 3.10 to 3.13, built as a shared library for the reference server; PYTHON chooses one.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3.11}

declare -A packages=(
  # The reference server itself, with its Python backend; it wants numpy 1.
  [triton]="nvidia-pytriton==0.7.0 numpy==1.26.4 onnxruntime==1.23.2"
  [mlserver]="mlserver==1.7.1 onnxruntime==1.32.0"
  [fastapi]="fastapi==0.165.0 uvicorn[standard]==0.54.0 orjson==3.13.0 numpy==2.4.6 onnxruntime==1.32.0"
  [litserve]="litserve==0.2.19 uvloop==0.23.0 numpy==2.4.6 onnxruntime==1.32.0"
)

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=("${!packages[@]}")
for name in "${wanted[@]}"; do
  list=${packages[$name]?"there is no peer named $name; there are ${!packages[*]}"}
  environment=.tools/peers/$name
  if [ -e "$environment/complete" ]; then continue; fi
  rm -rf "$environment"
  "$PYTHON" -m venv "$environment"
  # shellcheck disable=SC2086 # the list is many words
  "$environment/bin/pip" install --quiet --disable-pip-version-check $list
  touch "$environment/complete"
  echo "$name: installed"
done

if [ $# -eq 0 ]; then
  node --input-type=module -e '
    const { preparePerfAnalyzer } = await import(`${process.cwd()}/test/tools.mjs`);
    const missing = preparePerfAnalyzer();
    if (missing !== undefined) throw new Error(`perf_analyzer: ${missing}`);
  '
fi
