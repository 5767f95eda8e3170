/* What a report.html computes, without a browser: node test/report/evaluate.js report.html [program] [NAME=N]…  Prints JSON. */
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8"), chosen = {};
for (const [name, value] of process.argv.slice(3).map(x => x.split("="))) chosen[name] = value;
const script = id => new RegExp(`<script id="${id}">([\\s\\S]*?)</script>`).exec(page)[1];
vm.runInThisContext(script("data") + script("arithmetic") + `
globalThis.compute = chosen => {
  const p = report.programs.find(x => x.name === (chosen.program || report.programs[0].name)), values = report.dims.map(d => (d[0] in chosen ? +chosen[d[0]] : d[4]));
  const { dims, size, blocks } = evaluate(values, p, 0), state = stateBytes(p), t = timeline(p, null, size), named = {};
  report.dims.forEach((d, i) => { if (!isBlock(d)) named[d[0]] = dims[i]; });
  return { dims: named, live_bytes: t.peak, state_bytes: state.weights + state.states, bytes_moved: size[p.moved], least_bytes_moved: size[p.least],
    kernels: p.launches, blocks, saved: p.units.reduce((sum, u) => sum + (u[8] < 0 ? 0 : size[u[8]]), 0), too_large: tooLarge(p, size), rungs: rungsOf(p, values).map(r => ({ live: r.peak, share: r.flops / size[p.flops], again: r.launches, doublings: r.doublings })) };
};`);
console.log(JSON.stringify(globalThis.compute(chosen)));
