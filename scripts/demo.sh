#!/bin/sh
# The demo: two workers and a coordinator train a small GPT on the King James Bible under ZeRO stage 2, for about three
# minutes on two cores; then the model writes.
#
#   scripts/demo.sh BINARY        from the repository's root; `make demo` builds first
#
# The text comes from the Debian packages bible-kjv and bible-kjv-text. Everything is written under demo-run/: the text
# once, and each run's report and checkpoints in a folder of its own.
set -eu

binary=$1
work=demo-run
run=$work/$(date +%Y%m%d-%H%M%S)
mkdir -p "$run"

if [ ! -s $work/held.txt ]; then
  # One verse per line; the last 5% are held back from training.
  bible -l0 gen1:1-rev22:21 </dev/null >$work/all.txt
  lines=$(wc -l <$work/all.txt)
  head -n $((lines * 95 / 100)) $work/all.txt >$work/train.txt
  tail -n +$((lines * 95 / 100 + 1)) $work/all.txt >$work/held.part
  mv $work/held.part $work/held.txt
fi
echo "demo: $(wc -c <$work/train.txt) bytes of text to train on, $(wc -c <$work/held.txt) held back; this run is in $run"

"$binary" train examples/demo.yaml --set "checkpoint.dir=$run/checkpoints" --report "$run/report.jsonl"

# The newest committed checkpoint: the newest that has a manifest.
checkpoint=$(dirname "$(find "$run/checkpoints" -name manifest.json | sort | tail -n 1)")
loss=$(sed -n 's/.*"event": *"evaluate".*"loss": *\([0-9.e-]*\).*/\1/p' "$run/report.jsonl" | tail -n 1)
echo
echo "demo: validation loss $loss nats per byte; checkpoint $checkpoint"
echo "demo: a sample from it:"
echo
"$binary" generate --checkpoint "$checkpoint" --prompt "And God said" --tokens 400 --temperature 0.7 --top-k 40 --seed 1
echo
echo "demo: more of them: $binary generate --checkpoint $checkpoint --prompt 'In the beginning' --seed 2"
