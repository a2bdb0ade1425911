#!/usr/bin/env node
// Tokens per second of generation: `zerofleet generate` against llama.cpp, with the same bf16 weights, threads and prompt, in turns.
//
//   zerofleet checkpoint export --dtype bf16 CHECKPOINT model.gguf
//   npm install --prefix build/llama_cpp node-llama-cpp
//   NODE_PATH=build/llama_cpp/node_modules bench/peers/llama_cpp.mjs build/zerofleet CHECKPOINT model.gguf [THREADS] [ROUNDS]
//
// Both generate greedily from the same text. What is timed is the last 128 of 160 tokens, so that neither loading nor the prompt counts. Prints
// the median of each over the rounds, what it is in bytes of weights per second, the ratio, and how many characters of the texts agree.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [zerofleet, checkpoint, gguf, threads = '1', rounds = '5'] = process.argv.slice(2);
const library = createRequire(process.env.NODE_PATH + '/').resolve('node-llama-cpp');
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(library));

const prompt = 'In the beginning God created the heaven and the earth. And the earth was without form, and void; and';
const untimed = 32, timed = 128;

// Seconds of `zerofleet generate` for COUNT tokens, from its start to its end, and the text it adds.
function commandSeconds(count) {
  const words = ['generate', '--checkpoint', checkpoint, '--prompt', prompt, '--tokens', count, '--temperature', 0, '--threads', threads,
                 '--precision', 'bf16', '--json'];
  return new Promise((resolve, reject) => {
    const begin = performance.now();
    const command = spawn(zerofleet, words.map(String), {stdio: ['ignore', 'pipe', 'inherit']});
    let out = '';
    command.stdout.on('data', chunk => out += chunk);
    command.on('error', reject);
    command.on('close', code => {
      if (code !== 0) return reject(new Error(`zerofleet generate ended with ${code}`));
      const told = JSON.parse(out);
      resolve({seconds: (performance.now() - begin) / 1000, text: told.text, tokens: told.tokens});
    });
  });
}

async function ours() {
  const short = await commandSeconds(untimed), long = await commandSeconds(untimed + timed);
  return {rate: timed / (long.seconds - short.seconds), text: long.text};
}

const llama = await getLlama({gpu: false, build: 'never', maxThreads: Number(threads), logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: gguf});

async function theirs() {
  const context = await model.createContext({contextSize: 512, threads: Number(threads)});
  const added = [];
  let begin;
  for await (const token of context.getSequence().evaluate(model.tokenize(prompt), {temperature: 0})) {
    added.push(token);
    if (added.length === untimed) begin = performance.now();
    if (added.length === untimed + timed) break;
  }
  const rate = timed / (performance.now() - begin) * 1000;
  await context.dispose();
  return {rate, text: model.detokenize(added)};
}

const median = values => values.sort((a, b) => a - b)[values.length >> 1];
const bytes = fs.statSync(gguf).size, rates = {ours: [], theirs: []};
let mine, their;
for (let round = 0; round < Number(rounds); ++round) {
  rates.ours.push((mine = await ours()).rate);
  rates.theirs.push((their = await theirs()).rate);
}
const [our, peer] = [median(rates.ours), median(rates.theirs)];
let same = 0;
while (same < Math.min(mine.text.length, their.text.length) && mine.text[same] === their.text[same]) ++same;
const gigabytes = rate => (rate * bytes / 1e9).toFixed(1);
console.log('| threads | zerofleet tokens/s | GB/s | llama.cpp tokens/s | GB/s | times |\n|---|---|---|---|---|---|');
console.log(`| ${threads} | ${our.toFixed(1)} | ${gigabytes(our)} | ${peer.toFixed(1)} | ${gigabytes(peer)} | ${(our / peer).toFixed(2)} |`);
console.log(`the texts agree in ${same} of ${mine.text.length} characters`);
process.exit(0);
