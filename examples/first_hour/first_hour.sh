#!/bin/sh
# A first hour with Zerofleet in a minute or two: text becomes tokens, two workers train on them, one of them is killed, the run goes
# on with more steps, the model is evaluated, tuned on chats, and answers one.
#
#   examples/first_hour/first_hour.sh BINARY TOKENIZER FOLDER TEXT...
#
# TOKENIZER is a folder with tokenizer.json and chat_template.jinja (train_tokenizer.py makes one), TEXT... are files; the last is
# held back. Everything is written to FOLDER.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
binary=$1 tokenizer=$2 folder=$3
shift 3
mkdir -p "$folder"
while [ $# -gt 1 ]; do
  cat "$1"
  shift
done >"$folder/train.txt"
cp "$1" "$folder/held.txt"
tokenizer=$(cd "$tokenizer" && pwd)
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
cd "$folder"

echo "== tokens"
"$binary" tokenize --tokenizer "$tokenizer" --output train.u16 train.txt

echo "== two workers, one of which is killed"
"$binary" train "$here/train.yaml" --set "data.tokenizer=$tokenizer" --report report.jsonl &
run=$!
until grep -q '"event": *"checkpoint"' report.jsonl 2>/dev/null; do
  kill -0 $run  # or the script ends here
  sleep 0.1
done
kill -9 "$(pgrep -P $run -f 'zerofleet worker' | tail -n 1)"
wait $run
grep -q '"event": *"recovery"' report.jsonl

echo "== the same run, with more steps"
"$binary" train "$here/train.yaml" --set "data.tokenizer=$tokenizer" --set steps=200 --report report-2.jsonl
"$binary" eval --checkpoint checkpoints --data held.txt

echo "== tuned on chats: only answers count"
for color in red green blue white black yellow; do
  for thing in sea sky rose leaf snow night; do
    printf '{"messages": [{"role": "user", "content": "A %s %s?"}, {"role": "assistant", "content": "The %s is %s."}]}\n' \
      "$color" "$thing" "$thing" "$color"
  done
done >chats.jsonl
"$binary" train "$here/tune.yaml" --report tuned.jsonl
"$binary" generate --checkpoint tuned --chat --prompt "A white rose?" --tokens 20 --temperature 0
