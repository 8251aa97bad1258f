// SPDX-License-Identifier: BSD-2-Clause

// Panels of values over time. They are drawn in bins of a few pixels.

// grid returns the number of bins, their width, a function that returns the bin of a time, and one
// that makes empty bins for A and B.
const grid = () => {
  const span = width - gutter - right, n = Math.max(8, Math.floor(span / 3));
  return { n, step: span / n, at: t => Math.floor((t - from) / (to - from) * n),
    empty: () => [new Float64Array(n), new Float64Array(n)] };
};

// ends writes whose series a panel has, in their colours.
const ends = (p, has) => {
  g.font = '600 11px system-ui, sans-serif';
  g.textAlign = 'left';
  ['A', 'B'].forEach((name, side) => {
    if (!has[side]) return;
    g.fillStyle = side ? colours.response : colours.sent;
    g.fillText(name, 8 + 14 * side, p.top + p.height);
  });
  g.font = '10px system-ui, sans-serif';
};

// binned draws a series for each end as a line with an area below it: collect fills its bins, and
// format writes the scale. If there is a bound on the series, the line is the bound's.
const binned = (p, format, collect, bound) => {
  const { n, step, at, empty } = grid();
  const [area, line = area] = [collect, bound].filter(Boolean).map(f => {
    const bins = empty();
    f(bins, at, n);
    return bins;
  });
  const most = Math.max(...[...area, ...line].map(bin => Math.max(...bin))), top = most || 1;
  const has = [0, 1].map(side => area[side].some(v => v > 0) || line[side].some(v => v > 0));
  frame(p, 0, most, format);
  ends(p, has);
  const trace = bin => {
    g.beginPath();
    bin.forEach((v, k) => {
      const px = gutter + k * step, py = p.top + p.height - v / top * (p.height - 14);
      g.lineTo(px, py); g.lineTo(px + step, py);
    });
  };
  clip(p, () => [0, 1].filter(side => has[side]).forEach(side => {
    g.strokeStyle = g.fillStyle = side ? colours.response : colours.sent;
    g.lineWidth = 1.4;
    trace(line[side]);
    g.stroke();
    if (bound) trace(area[side]);
    g.globalAlpha = bound ? .3 : .12;
    g.lineTo(width - right, p.top + p.height); g.lineTo(gutter, p.top + p.height);
    g.fill();
    g.globalAlpha = 1;
    drawn[p.name] = (drawn[p.name] || 0) + 1;
  }));
  g.lineWidth = 1;
};

// steps returns a function that takes values of an end in the order of time. Each holds until the
// next; a bin has its highest.
const steps = (bins, at, n) => {
  const now = [0, 0], next = [0, 0];
  return (side, t, v) => {
    const bin = bins[side], k = at(t);
    for (const end = Math.min(k + 1, n); next[side] < end; next[side]++) bin[next[side]] = Math.max(bin[next[side]], now[side]);
    now[side] = v;
    if (k >= 0 && k < n) bin[k] = Math.max(bin[k], v);
  };
};

// sampled returns a function that collects a column of the samples, or undefined if the connection
// has no values in it.
const sampled = (column, scale = 1) => {
  const [a, b] = meta.conns[conn].samples;
  if (!column.subarray(a, b).some(v => v)) return undefined;
  return (bins, at, n) => {
    const put = steps(bins, at, n), last = packets.time[meta.conns[conn].packets[1] - 1];
    for (let i = a; i < b && samples.time[i] <= to; i++) put(samples.ofB[i], samples.time[i], column[i] * scale);
    for (const side of [0, 1]) put(side, Math.min(last, to), 0);
  };
};

function drawGoodput(p) {
  const seconds = (to - from) / 1e9;
  binned(p, v => amount(v, 'bit/s'), (bins, at, n) => {
    const put = (side, t, bytes) => { const k = at(t); if (k >= 0 && k < n) bins[side][k] += bytes * 8 * n / seconds; };
    if (thinned()) {
      buckets(k => { for (const s of [0, 1]) put(s, (levels.start[k] + levels.end[k]) / 2, levels.payload[2 * k + s]); });
    } else {
      const [a, b] = visible();
      for (let i = a; i < b; i++) if (packets.payload[i]) put(packets.flags[i] & fromB, packets.time[i], packets.payload[i]);
    }
  });
}

function drawPace(p) {
  binned(p, v => amount(v, 'bit/s'), sampled(samples.pace, 8) ?? (() => { }));
}

// measuredRTT collects the times to acknowledgements. They fill the bins behind them, up to the
// connection's last packet.
const measuredRTT = (bins, at, n) => {
  const put = (side, t, v) => { const k = at(t); if (v && k >= 0 && k < n) bins[side][k] = Math.max(bins[side][k], v); };
  if (thinned()) {
    buckets(k => { for (const s of [0, 1]) put(s, levels.start[k], levels.rtt[2 * k + s]); });
  } else {
    const [a, b] = visible();
    for (let i = a; i < b; i++) put(packets.flags[i] & fromB ? 0 : 1, packets.time[i], packets.rtt[i]);
  }
  const last = Math.min(n - 1, at(packets.time[meta.conns[conn].packets[1] - 1]));
  for (const bin of bins) for (let k = 1; k <= last; k++) bin[k] ||= bin[k - 1];
};

function drawRTT(p) {
  binned(p, duration, sampled(samples.rtt) ?? measuredRTT);
}

// measuredFlight collects the bytes that acknowledgements have not covered yet.
const measuredFlight = (bins, at, n) => {
  const put = steps(bins, at, n);
  if (thinned()) {
    buckets(k => { for (const s of [0, 1]) put(s, levels.start[k], levels.inFlight[2 * k + s]); });
  } else {
    const [a, b] = visible();
    for (let i = a; i < b; i++) put(packets.flags[i] & ofB ? 1 : 0, packets.time[i], packets.inFlight[i]);
  }
};

function drawWindow(p) {
  const bound = sampled(samples.window);
  binned(p, v => amount(v, 'B'), sampled(samples.inFlight) ?? measuredFlight, bound);
  g.fillStyle = colours.dim;
  g.fillText(bound ? 'area: in flight' : 'in flight', 8, p.top + Math.max(36, p.height / 2 + 6));
}

// increases calls f for each increase of a counter of the samples, which never falls. It returns
// for each side whether its counter was ever more than 0.
const increases = (counter, f) => {
  const [a, b] = meta.conns[conn].samples, last = [], counts = [false, false];
  for (let i = a; i < b; i++) {
    const side = samples.ofB[i];
    counts[side] ||= counter[i] > 0;
    if (counter[i] < last[side]) continue;
    if (counter[i] > last[side] && samples.time[i] <= to) f(side, samples.time[i], counter[i] - last[side]);
    last[side] = counter[i];
  }
  return counts;
};

// Rows of drawCounts: a name, a colour, the counter of samples, and the packets that show the same
// where it has counted nothing. The end that receives marked packets counts them, and notifications
// concern the end that receives them: 1 stands for the other end.
const countRows = [
  ['lost', 'refusal', 'lost', 0, i => packets.flags[i] & isLost, 0],
  ['repeated', 'repeated', 'repeated', 0, i => packets.kind[i] === 1, 0],
  ['marked', 'cnp', 'marked', 1, i => packets.flags[i] & isMarked, 0],
  ['notified', 'cnp', 'notices', 0, i => packets.kind[i] === 9, 1],
];

// drawCounts draws how many packets were lost, repeated and marked, and how many marks were
// notified. A's counts stand on a row's line, and B's hang from it.
function drawCounts(p) {
  frame({ ...p, name: '' });
  const { step, at, empty } = grid(), [a, b] = visible(), h = p.height / countRows.length;
  countRows.forEach(([name, colour, counter, counted, shows, sent], row) => {
    const bins = empty();
    let sum = 0;
    const put = (side, t, v) => { const k = at(t); if (k in bins[side]) { bins[side][k] += v; sum += v; } };
    // Captures of both ends say better than a sender what was lost.
    const known = name === 'lost' && meta.conns[conn].joined ? [false, false]
      : increases(samples[counter], (side, t, v) => put(side ^ counted, t, v));
    for (let j = firstAt(trouble, 0, trouble.length, a); j < trouble.length && trouble[j] < b; j++) {
      const i = trouble[j], side = packets.flags[i] & fromB ^ sent;
      if (shows(i) && !known[side ^ counted]) put(side, packets.time[i], 1);
    }
    const most = Math.max(...bins[0], ...bins[1]), zero = Math.round(p.top + (row + .5) * h);
    g.fillStyle = colours.line;
    g.fillRect(gutter, zero, width - gutter - right, 1);
    g.fillStyle = colours[colour];
    bins.forEach((bin, side) => bin.forEach((v, k) => {
      const high = Math.max(2, v / most * (h / 2 - 1));
      if (v) g.fillRect(gutter + k * step, side ? zero + 1 : zero - high, step, high);
    }));
    g.font = '11px system-ui, sans-serif';
    g.fillStyle = colours.text;
    g.fillText(name, 8, zero + 4);
    g.font = '10px system-ui, sans-serif';
    g.fillStyle = colours.dim;
    g.textAlign = 'right';
    g.fillText(sum.toLocaleString('en', { notation: 'compact' }), gutter - 5, zero + 4);
    g.textAlign = 'left';
    drawn[name + ' in view'] = sum;
  });
}
