// SPDX-License-Identifier: BSD-2-Clause

// Drawing: all panels share the axis of time. drawn counts what the last frame shows.

const canvas = document.getElementById('chart');
const g = canvas.getContext('2d');
const gutter = 86, right = 14;
const manyRows = 20000; // from here on Go's levels are drawn instead of packets

let conn = 0, from = 0, to = 1, selected = -1, matches = null, drawn = {}, panels = [];
let trouble = []; // rows of the connection that are drawn however many others there are
let oddOps = []; // operations of the connection that failed, waited or were repeated
let longest = 0; // flight of the connection's packets, where captures of both ends say so
let reach; // of the connection's operations: the latest end of those up to each
let colours = {}, width = 0, height = 0;

const kindColours = ['sent', 'repeated', 'late', 'response', 'ack', 'sack', 'nak', 'refusal', 'rnr',
  'cnp', 'setup', 'refusal', 'refusal'];
const opColours = ['sent', 'send', 'read', 'cnp', 'setup', 'sack'];
const plain = new Set([0, 3, 4, 10]);

const readColours = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['back', 'panel', 'text', 'dim', 'line', 'select', 'sent', 'repeated', 'late',
    'response', 'ack', 'sack', 'nak', 'refusal', 'rnr', 'cnp', 'setup', 'read', 'send']) {
    colours[name] = style.getPropertyValue('--' + name).trim();
  }
};

// Packets that are known to be lost have the colour of failures.
const colourOf = i => meta.conns[conn].joined && packets.flags[i] & isLost ? colours.refusal : colours[kindColours[packets.kind[i]]];
const x = t => gutter + (t - from) / (to - from) * (width - gutter - right);
const timeAt = px => from + (px - gutter) / (width - gutter - right) * (to - from);

// mark draws the sign of a kind, so that colour is not all that tells kinds apart.
const mark = (c, kind, px, py, r) => {
  c.beginPath();
  switch (kind) {
    case 1: // repeated: a diamond
      c.moveTo(px, py - r); c.lineTo(px + r, py); c.lineTo(px, py + r); c.lineTo(px - r, py);
      c.closePath(); c.fill(); break;
    case 2: // late: a ring
      c.arc(px, py, r - .5, 0, 7); c.stroke(); break;
    case 6: c.rect(px - r, py - r, 2 * r, 2 * r); c.fill(); break; // NAK: a square
    case 7: case 11: case 12: // failures: a cross
      c.lineWidth = 2.4;
      c.moveTo(px - r, py - r); c.lineTo(px + r, py + r);
      c.moveTo(px + r, py - r); c.lineTo(px - r, py + r); c.stroke(); c.lineWidth = 1; break;
    case 8: // RNR: a triangle that points down
      c.moveTo(px - r, py - r); c.lineTo(px + r, py - r); c.lineTo(px, py + r); c.closePath();
      c.fill(); break;
    case 9: // CNP: a triangle that points up
      c.moveTo(px - r, py + r); c.lineTo(px + r, py + r); c.lineTo(px, py - r); c.closePath();
      c.fill(); break;
    case 5: c.rect(px - r, py - r, 2 * r, 2 * r); c.stroke(); break;
    case 4: c.rect(px - r / 2, py - r / 2, r, r); c.fill(); break;
    default: c.arc(px, py, r * .7, 0, 7); c.fill();
  }
};

const layout = () => {
  const box = canvas.getBoundingClientRect(), scale = devicePixelRatio || 1;
  width = box.width; height = box.height;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  g.setTransform(scale, 0, 0, scale, 0, 0);
  const parts = [['sequence', 22, drawSequence], ['PSN', 28, drawNumbers], ['goodput', 11, drawGoodput],
    ['round trip', 11, drawRTT], ['window', 11, drawWindow], ['counts', 16, drawCounts],
    ['operations', 17, drawOps]];
  if (samples.pace.some(v => v)) parts.splice(3, 0, ['pace', 9, drawPace]);
  if (meta.calls.length > 0) parts.push(['verbs', 10, drawCalls]);
  const sum = parts.reduce((n, p) => n + p[1], 0), gap = 9, top = 6, axis = 24;
  const room = height - top - axis - gap * parts.length;
  let y = top;
  panels = parts.map(([name, share, draw]) => {
    const p = { name, draw, top: y, height: Math.floor(room * share / sum) };
    y += p.height + gap;
    return p;
  });
};

// visible returns the rows in view, with one more at each end.
const visible = () => {
  const [lo, hi] = meta.conns[conn].packets;
  const a = firstAt(packets.time, lo, hi, from - Math.max(transit() * 2, longest));
  const b = firstAt(packets.time, lo, hi, to + transit() * 2);
  return [Math.max(lo, a - 1), Math.min(hi, b + 1)];
};

// shown calls f for each packet in view that the filter lets through, at most manyRows.
const shown = f => {
  const [a, b] = visible();
  let n = 0;
  if (matches) {
    for (let j = firstAt(matches, 0, matches.length, a); j < matches.length && matches[j] < b; j++) {
      if (n++ < manyRows) f(matches[j]);
    }
  } else if (b - a <= manyRows) {
    for (let i = a; i < b; i++) { f(i); n++; }
  } else {
    for (let j = firstAt(trouble, 0, trouble.length, a); j < trouble.length && trouble[j] < b; j++) {
      if (n++ < manyRows) f(trouble[j]);
    }
  }
  return n;
};

const thinned = () => {
  const [a, b] = visible();
  return !matches && b - a > manyRows && meta.conns[conn].levels.length > 0;
};

// buckets calls f for each bucket of the level that fits the view.
const buckets = f => {
  const list = meta.conns[conn].levels;
  for (let l = 0; l < list.length; l++) {
    const [lo, hi] = list[l];
    const a = Math.max(lo, firstAt(levels.start, lo, hi, from) - 1), b = firstAt(levels.start, lo, hi, to);
    if (b - a <= 4096 || l === list.length - 1) {
      for (let k = a; k < b; k++) f(k);
      return;
    }
  }
};

// once returns a function that tells whether it is called for a pixel and a kind the first time:
// marks that would cover each other are drawn once.
const once = () => {
  const seen = new Set();
  return (px, py, kind) => {
    const key = (Math.round(px) * 4096 + Math.round(py)) * 16 + kind, n = seen.size;
    return seen.add(key).size > n;
  };
};

// batch gathers paths of equal style, which are drawn at once: put returns the path of a style, and
// flush draws them by f.
const batch = () => {
  const paths = new Map();
  return {
    put: style => {
      let path = paths.get(style);
      if (!path) paths.set(style, path = new Path2D());
      return path;
    },
    flush: f => paths.forEach((path, style) => f(style, path)),
  };
};

const transit = () => meta.conns[conn].transit;
const local = () => meta.conns[conn].local; // 1 if B's host captured

// wire returns when and where a packet leaves and arrives.
const wire = (i, p) => {
  const b = packets.flags[i] & fromB ? 1 : 0, t = packets.time[i], d = transit();
  const { joined } = meta.conns[conn];
  const start = joined ? (packets.flags[i] & isArrival ? t - d : t) : b === local() ? t : t - d;
  const yA = p.top + 22, yB = p.top + p.height - 18;
  return { x0: x(start), y0: b ? yB : yA, x1: x(start + (flightOf(i) ?? d)), y1: b ? yA : yB };
};

const frame = (p, low, high, format) => {
  g.strokeStyle = colours.line;
  g.lineWidth = 1;
  g.strokeRect(gutter + .5, p.top + .5, width - gutter - right, p.height);
  g.fillStyle = colours.text;
  g.font = '600 11px system-ui, sans-serif';
  g.textAlign = 'left';
  g.fillText(p.name === 'PSN' ? numberName() : p.name, 8, p.top + 12);
  g.font = '10px system-ui, sans-serif';
  g.fillStyle = colours.dim;
  g.textAlign = 'right';
  if (format) {
    g.fillText(format(high), gutter - 5, p.top + 24);
    g.fillText(format(low), gutter - 5, p.top + p.height);
  }
  g.textAlign = 'left';
};

const clip = (p, f) => {
  g.save();
  g.beginPath();
  g.rect(gutter, p.top, width - gutter - right + 1, p.height);
  g.clip();
  f();
  g.restore();
};

function drawSequence(p) {
  frame(p);
  g.fillStyle = colours.dim;
  g.textAlign = 'right';
  g.fillText('A', gutter - 6, p.top + 26);
  g.fillText('B', gutter - 6, p.top + p.height - 14);
  g.textAlign = 'left';
  clip(p, () => {
    const yA = p.top + 22, yB = p.top + p.height - 18;
    g.strokeStyle = colours.dim;
    g.beginPath();
    g.moveTo(gutter, yA); g.lineTo(width, yA); g.moveTo(gutter, yB); g.lineTo(width, yB);
    g.stroke();
    if (thinned()) {
      buckets(k => {
        const x0 = x(levels.start[k]), w = Math.max(1, x(levels.end[k]) - x0);
        g.globalAlpha = .35;
        g.fillStyle = levels.kinds[k] & 2 ? colours.repeated : colours.sent;
        g.fillRect(x0, yA + 1, w, yB - yA - 2);
        g.globalAlpha = 1;
      });
    }
    const last = [-99, -99];
    const few = (([a, b]) => b - a < 400)(visible()), first = once(), lines = batch(), dashed = batch(), marks = [];
    shown(i => {
      const w = wire(i, p), kind = packets.kind[i], lost = packets.flags[i] & isLost;
      drawn[meta.kinds[kind]] = (drawn[meta.kinds[kind]] || 0) + 1;
      if (lost) drawn.lost = (drawn.lost || 0) + 1;
      if (!few && i !== selected && !first(w.x0, packets.flags[i] & (fromB | isLost | isMarked), kind)) return;
      if (!few) {
        const path = (lost ? dashed : lines).put(colourOf(i)), share = lost ? .55 : 1;
        path.moveTo(w.x0, w.y0); path.lineTo(w.x0 + (w.x1 - w.x0) * share, w.y0 + (w.y1 - w.y0) * share);
        if (lost || !plain.has(kind) || packets.flags[i] & isMarked || i === selected) marks.push(i);
        return;
      }
      wireLine(i, w);
      const side = packets.flags[i] & fromB ? 1 : 0;
      if (w.x0 > last[side]) {
        const o = packets.op[i], psn = psnOf(i);
        const text = (plain.has(kind) && o !== none && kind !== 4 ? opTitle(o) : meta.kinds[kind])
          + (psn !== undefined ? ' · ' + psn : '');
        g.fillStyle = colours.dim;
        g.font = '10px system-ui, sans-serif';
        g.fillText(text, w.x0 + 2, side ? p.top + p.height - 5 : p.top + 14);
        last[side] = w.x0 + g.measureText(text).width + 10;
      }
    });
    g.lineWidth = 1;
    lines.flush((colour, path) => { g.strokeStyle = colour; g.stroke(path); });
    g.setLineDash([4, 3]);
    dashed.flush((colour, path) => { g.strokeStyle = colour; g.stroke(path); });
    g.setLineDash([]);
    for (const i of marks) wireMark(i, wire(i, p), false);
  });
}

// wireLine draws a packet between the ends.
const wireLine = (i, w) => {
  const lost = packets.flags[i] & isLost;
  const share = lost ? .55 : 1;
  g.strokeStyle = colourOf(i);
  g.lineWidth = 1 + Math.min(3, packets.length[i] / 1400);
  g.setLineDash(lost ? [4, 3] : []);
  g.beginPath();
  g.moveTo(w.x0, w.y0); g.lineTo(w.x0 + (w.x1 - w.x0) * share, w.y0 + (w.y1 - w.y0) * share);
  g.stroke();
  g.setLineDash([]);
  g.lineWidth = 1;
  wireMark(i, w, true);
};

// wireMark draws the signs of a packet between the ends.
const wireMark = (i, w, few) => {
  const lost = packets.flags[i] & isLost, kind = packets.kind[i];
  const share = lost ? .55 : 1;
  const ex = w.x0 + (w.x1 - w.x0) * share, ey = w.y0 + (w.y1 - w.y0) * share;
  g.strokeStyle = g.fillStyle = colourOf(i);
  if (lost) mark(g, 7, ex, ey, 3.5);
  else if (!plain.has(kind)) mark(g, kind, (w.x0 + w.x1) / 2, (w.y0 + w.y1) / 2, 4);
  else if (few) arrow(w);
  if (packets.flags[i] & isMarked) { g.strokeStyle = colours.cnp; mark(g, 5, ex, ey, 3); }
  if (i === selected) {
    g.strokeStyle = colours.text; g.lineWidth = 3; g.globalAlpha = .4;
    g.beginPath(); g.moveTo(w.x0, w.y0); g.lineTo(ex, ey); g.stroke(); g.globalAlpha = 1;
  }
  g.lineWidth = 1;
};

const arrow = w => {
  const a = Math.atan2(w.y1 - w.y0, w.x1 - w.x0);
  g.beginPath();
  g.moveTo(w.x1, w.y1);
  g.lineTo(w.x1 - 7 * Math.cos(a - .3), w.y1 - 7 * Math.sin(a - .3));
  g.lineTo(w.x1 - 7 * Math.cos(a + .3), w.y1 - 7 * Math.sin(a + .3));
  g.fill();
};

// numberSpan is the range of PSNs in view: those of one end's requests, the busier one's.
let space = 0, low = 0, high = 1;
const numberSpan = () => {
  low = Infinity; high = -Infinity;
  const take = (a, b) => { low = Math.min(low, a); high = Math.max(high, b); };
  const mine = i => ((packets.flags[i] & ofB) ? 1 : 0) === space;
  const [a, b] = visible();
  if (thinned()) {
    buckets(k => { const j = 2 * k + space; if (levels.low[j] <= levels.high[j]) take(levels.low[j], levels.high[j]); });
  } else {
    for (let i = a; i < b; i++) if (mine(i) && packets.kind[i] < 9) take(packets.number[i], packets.number[i]);
  }
  if (!(low <= high)) { low = 0; high = 1; }
  if (low === high) high = low + 1;
};

const numberY = (p, n) => p.top + p.height - 7 - (n - low) / (high - low) * (p.height - 16);

function drawNumbers(p) {
  numberSpan();
  frame(p, low, high, n => String(onWire(space, Math.round(n))));
  g.fillText(`of ${space ? 'B' : 'A'}'s requests`, 8, p.top + p.height / 2 + 4);
  g.fillText('other end: e', 8, p.top + p.height / 2 + 18);
  clip(p, () => {
    if (thinned()) {
      g.fillStyle = colours.sent;
      buckets(k => {
        const j = 2 * k + space;
        if (levels.low[j] > levels.high[j]) return;
        const y0 = numberY(p, levels.high[j]), y1 = numberY(p, levels.low[j]), x0 = x(levels.start[k]);
        g.fillRect(x0, y0 - 1, Math.max(1.5, x(levels.end[k]) - x0), y1 - y0 + 2);
        drawn.buckets = (drawn.buckets || 0) + 1;
      });
    }
    let ackX = NaN, ackY = 0;
    const r = visible()[1] - visible()[0] < 1500 ? 3.4 : 2.2, first = once();
    g.lineWidth = 1;
    shown(i => {
      if (((packets.flags[i] & ofB) ? 1 : 0) !== space) return;
      const kind = packets.kind[i], px = x(packets.time[i]), py = numberY(p, packets.number[i]);
      if (i !== selected && !first(px, py, kind)) return;
      if (kind === 4 && !matches) { // acknowledged: the staircase below what is sent
        g.strokeStyle = colours.response;
        g.beginPath();
        if (!isNaN(ackX)) { g.moveTo(ackX, ackY); g.lineTo(px, ackY); g.lineTo(px, py); }
        g.stroke();
        ackX = px; ackY = py;
      }
      g.fillStyle = g.strokeStyle = colourOf(i);
      mark(g, kind, px, py, plain.has(kind) ? r * .8 : r + 1);
      if (packets.flags[i] & isMarked) { g.strokeStyle = colours.cnp; mark(g, 5, px, py, r + 2); }
      if (i === selected) { g.strokeStyle = colours.text; g.beginPath(); g.arc(px, py, 8, 0, 7); g.stroke(); }
    });
  });
}

// opCall draws when an operation was posted, or completed, with a line to its span's end.
const opCall = (c, end, y, colour) => {
  if (c === none) return 0;
  const px = x(meta.calls[c].time);
  g.strokeStyle = meta.calls[c].failed ? colours.refusal : colour;
  g.beginPath();
  g.moveTo(px, y + 1); g.lineTo(px, y + 14.5); g.lineTo(end, y + 14.5); g.lineTo(end, y + 12);
  g.stroke();
  return 1;
};

let opBoxes = [];
function drawOps(p) {
  frame(p);
  opBoxes = [];
  drawn.posted = drawn.completed = 0;
  const [lo, hi] = meta.conns[conn].ops, lanes = Math.max(1, Math.floor((p.height - 4) / 16)), full = new Array(lanes).fill(-1e9);
  clip(p, () => {
    g.font = '10px system-ui, sans-serif';
    let n = 0;
    const small = batch();
    let odds = firstAt(oddOps, 0, oddOps.length, lo), lastOdd = -1e9;
    for (let o = lo + firstAt(reach, 0, hi - lo, from); o < hi && ops.start[o] <= to; o++) {
      const free = Math.min(...full);
      if (free > gutter && x(ops.start[o]) < free) {
        // All lanes are full here. The next to draw begins behind, or is odd.
        while (odds < oddOps.length && oddOps[odds] < o) odds++;
        o = Math.min(firstAt(ops.start, o, hi, timeAt(free)), oddOps[odds] ?? hi);
        if (o >= hi || ops.start[o] > to) break;
      }
      if (ops.end[o] < from) continue;
      const x0 = x(ops.start[o]), x1 = Math.max(x0 + 2, x(ops.end[o]));
      let lane = full.findIndex(e => e <= x0), over = false;
      const odd = ops.status[o] === 2 || ops.repeated[o] || ops.waited[o];
      if (lane < 0) {
        if (!odd || x1 < lastOdd + 2) continue;
        lane = lanes - 1;
        lastOdd = x1;
        over = true;
      }
      full[lane] = Math.max(full[lane], x1 + 1);
      const y = p.top + 3 + lane * 16, w = x1 - x0;
      opBoxes.push({ o, x0, x1, y });
      if (++n >= manyRows) break;
      if (w <= 4 && !odd && ops.posted[o] === none) {
        small.put(colours[opColours[ops.operation[o]]]).rect(x0, y, w, 13);
        continue;
      }
      g.fillStyle = ops.status[o] === 2 ? colours.refusal : colours[opColours[ops.operation[o]]];
      g.globalAlpha = over ? .08 : ops.status[o] === 0 ? .25 : .45;
      g.fillRect(x0, y, w, 13);
      g.globalAlpha = 1;
      g.strokeStyle = ops.repeated[o] ? colours.repeated : ops.waited[o] ? colours.rnr : g.fillStyle;
      if (w > 4 || odd) g.strokeRect(x0 + .5, y + .5, w - 1, 12);
      drawn.posted += opCall(ops.posted[o], x0, y, colours.sent);
      drawn.completed += opCall(ops.completed[o], x1, y, colours.response);
      const left = Math.max(x0, gutter);
      if (x1 - left > 46 && !over) {
        g.fillStyle = colours.text;
        g.save(); g.beginPath(); g.rect(left, y, x1 - left, 13); g.clip();
        g.fillText(opText(o), left + 4, y + 10);
        g.restore();
      }
    }
    g.globalAlpha = .45;
    small.flush((colour, path) => { g.fillStyle = colour; g.fill(path); });
    g.globalAlpha = 1;
    drawn.operations = n;
  });
}

let callBoxes = [];
function drawCalls(p) {
  frame(p);
  callBoxes = [];
  clip(p, () => {
    const last = [-1e9, -1e9], labels = [];
    let n = 0;
    g.font = '10px system-ui, sans-serif';
    const first = once();
    for (let i = firstAt(callTimes, 0, callTimes.length, from); i < callTimes.length && callTimes[i] <= to; i++) {
      const c = meta.calls[i];
      if (c.conn >= 0 && c.conn !== conn) continue;
      const px = x(c.time), done = c.name === 'completion';
      if (!first(px, done ? 1 : 0, c.failed ? 1 : 0)) continue;
      g.strokeStyle = g.fillStyle = c.failed ? colours.refusal : done ? colours.response : colours.sent;
      g.beginPath();
      g.moveTo(px, p.top + (done ? p.height / 2 : 2)); g.lineTo(px, p.top + (done ? p.height - 2 : p.height / 2));
      g.stroke();
      const side = done ? 1 : 0;
      if (px > last[side]) {
        labels.push([c.name, px + 3, p.top + (done ? p.height - 6 : 12), g.fillStyle]);
        last[side] = px + g.measureText(c.name).width + 60;
      }
      callBoxes.push({ i, px });
      if (++n >= manyRows) break;
    }
    for (const [text, px, py, colour] of labels) {
      g.globalAlpha = .85;
      g.fillStyle = colours.back;
      g.fillRect(px - 1, py - 9, g.measureText(text).width + 3, 12);
      g.globalAlpha = 1;
      g.fillStyle = colour;
      g.fillText(text, px, py);
    }
    drawn.calls = n;
  });
}

const drawAxis = () => {
  const y = height - 22, step = niceStep((to - from) / Math.max(2, (width - gutter) / 130));
  g.fillStyle = colours.dim;
  g.font = '11px system-ui, sans-serif';
  g.textAlign = 'center';
  // Marks are counted, because t + step may equal t when t is large.
  const first = Math.ceil(from / step), last = Math.min(Math.floor(to / step), first + 200);
  for (let k = first; k <= last; k++) {
    const t = k * step, px = x(t);
    if (px < gutter) continue;
    g.globalAlpha = .35;
    g.fillStyle = colours.line;
    g.fillRect(px, 6, 1, y - 6);
    g.globalAlpha = 1;
    g.fillStyle = colours.dim;
    const text = duration(t), half = g.measureText(text).width / 2;
    g.fillText(text, Math.min(px, width - half - 2), y + 14);
  }
  g.textAlign = 'left';
};

const niceStep = v => {
  const e = Math.pow(10, Math.floor(Math.log10(v)));
  return Math.max(1, [1, 2, 5, 10].map(m => m * e).find(s => s >= v));
};

let asked = false;
const draw = () => {
  asked = false;
  drawn = {};
  if (width === 0) layout();
  g.clearRect(0, 0, width, height);
  if (meta.conns.length === 0) {
    g.fillStyle = colours.dim;
    g.font = '14px system-ui, sans-serif';
    g.fillText('There are no packets of RoCEv2, iWARP or TRP in the capture.', gutter, 60);
    drawn.empty = 1;
    return;
  }
  drawAxis();
  for (const p of panels) p.draw(p);
};

const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };
