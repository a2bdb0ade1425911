// Runs the trace processor of Perfetto's page without a browser: requests (perfetto.protos.TraceProcessorRpcStream) on standard input,
// answers on standard output. Usage: node trace_processor.js FOLDER, where engine_bundle.js is.
const fs = require('fs'), path = require('path'), vm = require('vm');
const {MessageChannel} = require('worker_threads');

const folder = path.resolve(process.argv[2]), bundle = path.join(folder, 'engine_bundle.js');
const fileOf = url => path.resolve(folder, String(url).replace('file://', ''));

// What the bundle expects of the worker that a browser would run it in.
self = globalThis;
WorkerGlobalScope = function() {};
location = {href: 'file://' + bundle};
importScripts = () => {};
fetch = async url => new Response(fs.readFileSync(fileOf(url)), {headers: {'Content-Type': 'application/wasm'}});
XMLHttpRequest = class {
  open(method, url) { this.file = fileOf(url); }
  send() {
    this.status = 200;
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
    if (this.onload) this.onload();
  }
  overrideMimeType() {}
};
// As in a browser, there is no `process`, no `window` and no `require`.
vm.runInThisContext('(function(process, window, require) {' + fs.readFileSync(bundle, 'utf8') + '\n})', {filename: bundle})();

const {port1: inner, port2: outer} = new MessageChannel();
outer.on('message', bytes => fs.writeSync(1, Buffer.from(bytes)));
self.onmessage({data: inner});
outer.postMessage(new Uint8Array(fs.readFileSync(0)));
