// SPDX-License-Identifier: BSD-2-Clause

// What the user does: choosing a connection, zooming, filtering, clicking. Names and bytes of the
// capture reach the page as text nodes only.

const byId = id => document.getElementById(id);
const element = (tag, text, className) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
};

// press calls f when the user clicks on an element, or presses Enter or Space on it.
const press = (e, f) => {
  e.tabIndex = 0;
  e.addEventListener('click', f);
  e.addEventListener('keydown', k => {
    if (k.key !== 'Enter' && k.key !== ' ') return;
    k.preventDefault();
    f();
  });
};

const listConns = () => {
  const list = byId('conns');
  let files = '';
  meta.conns.forEach((c, i) => {
    const name = c.files.join(' + ');
    if (name !== files || i === 0) {
      files = name;
      list.append(element('div', name, 'file'));
    }
    const e = element('div', undefined, 'conn ' + c.grade);
    e.setAttribute('role', 'option');
    e.append(element('b', c.protocol), ' ' + c.a.name + ' ⇄ ' + c.b.name);
    const trouble = c.a.repeated + c.b.repeated;
    e.append(element('small', `${(c.packets[1] - c.packets[0]).toLocaleString('en')} packets, `
      + amount(c.a.bytes + c.b.bytes, 'B') + (trouble ? `, ${trouble} repeated` : '')));
    press(e, () => choose(i));
    list.append(e);
  });
};

const counts = [['packets', 'packets'], ['payload', 'bytes'], ['operations', 'operations'],
  ['done', 'done'], ['failed', 'failed'], ['repeated', 'repeated'], ['late', 'late'],
  ['taken for lost', 'lost'], ['rounds of repeats', 'resent'], ['unasked', 'timedOut'],
  ['NAKs met', 'naks'], ['RNR NAKs met', 'rnrs'], ['CNPs met', 'cnps'], ['marked', 'marked'], ['bad', 'bad']];

const showHealth = c => {
  const list = byId('findings');
  list.replaceChildren();
  if (c.captures) list.append(element('li', c.captures, 'good'));
  if (c.findings.length === 0) list.append(element('li', 'Nothing was repeated or refused.', 'good'));
  for (const f of c.findings) {
    const e = element('li', f.text, f.bad ? 'bad' : '');
    if (f.packet >= 0) {
      e.dataset.row = f.packet;
      e.setAttribute('role', 'button');
      press(e, () => { goTo(f.packet); select(f.packet); });
    }
    list.append(e);
  }
  const table = byId('counts');
  table.replaceChildren();
  const head = element('tr');
  head.append(element('th', ''), element('th', 'A'), element('th', 'B'));
  table.append(head);
  const row = (name, a, b) => {
    const e = element('tr');
    e.append(element('td', name), element('td', a), element('td', b));
    table.append(e);
  };
  for (const [name, key] of counts) {
    if (c.a[key] || c.b[key] || key === 'packets') {
      const text = v => key === 'bytes' ? amount(v, 'B') : v.toLocaleString('en');
      row(name, text(c.a[key]), text(c.b[key]));
    }
  }
  if (c.a.rtts || c.b.rtts) {
    for (const [name, key] of [['least round trip', 'rttMin'], ['mean', 'rttMean'], ['most', 'rttMax']]) {
      row(name, c.a.rtts ? duration(c.a[key]) : '', c.b.rtts ? duration(c.b[key]) : '');
    }
  }
};

const choose = i => {
  conn = i;
  const c = meta.conns[i];
  document.querySelectorAll('.conn').forEach((e, k) => {
    e.classList.toggle('on', k === i);
    e.setAttribute('aria-selected', String(k === i));
  });
  const [a, b] = c.packets;
  trouble = [];
  let requests = [0, 0];
  longest = 0;
  for (let j = a; j < b; j++) {
    longest = Math.max(longest, flightOf(j) ?? 0);
    const odd = !plain.has(packets.kind[j]) && packets.kind[j] !== 5;
    if (odd || packets.flags[j] & (isLost | isMarked)) trouble.push(j);
    if (packets.kind[j] < 3) requests[packets.flags[j] & ofB ? 1 : 0]++;
  }
  space = requests[1] > requests[0] ? 1 : 0;
  const [first, end] = c.ops;
  oddOps = [];
  reach = new Float64Array(end - first);
  for (let o = first, most = -Infinity; o < end; o++) {
    if (ops.status[o] === 2 || ops.repeated[o] || ops.waited[o]) oddOps.push(o);
    reach[o - first] = most = Math.max(most, ops.end[o]);
  }
  showHealth(c);
  applyFilter();
  reset();
};

// otherEnd shows the numbers of the other end's requests.
const otherEnd = () => { space = 1 - space; redraw(); };

const reset = () => {
  const [a, b] = meta.conns[conn].packets;
  const first = packets.time[a], last = packets.time[b - 1];
  const margin = Math.max(500, (last - first + transit()) * .02);
  view(first - margin, last + transit() + margin);
};

const view = (a, b) => {
  // In nanoseconds: numbers as large as a must tell the pixels apart.
  const least = Math.max(50, Math.abs(a) / 2 ** 44);
  if (b - a < least) { const m = (a + b) / 2; a = m - least / 2; b = m + least / 2; }
  from = a; to = b;
  redraw();
};

const goTo = i => {
  const c = packets.op[i] !== none ? ops.end[packets.op[i]] - ops.start[packets.op[i]] : 0;
  const half = Math.max(transit() * 4, c * 1.5, (to - from) / 50, 2000);
  view(packets.time[i] - half, packets.time[i] + half);
};

const select = async i => {
  selected = i;
  redraw();
  const box = byId('fields');
  const list = await fieldsOf(i);
  if (selected !== i) return;
  box.replaceChildren();
  const f = packets.flags[i];
  box.append(element('div', packetText(i)));
  box.firstChild.style.whiteSpace = 'pre-wrap';
  if (packets.op[i] !== none) {
    box.append(element('div', opText(packets.op[i]) + opCalls(packets.op[i])));
    box.lastChild.style.whiteSpace = 'pre-wrap';
  }
  let layer = '', dl;
  for (const [l, name, text] of list) {
    if (l !== layer) {
      layer = l;
      box.append(element('h3', l));
      dl = element('dl');
      box.append(dl);
    }
    dl.append(element('dt', name), element('dd', text));
  }
};

const applyFilter = () => {
  const text = byId('filter').value, f = parseFilter(text);
  byId('filter').classList.toggle('wrong', f === undefined);
  matches = null;
  if (f) {
    matches = [];
    const [a, b] = meta.conns[conn].packets;
    for (let i = a; i < b; i++) if (f(i)) matches.push(i);
  }
  redraw();
};

// step selects the next packet that the filter lets through, or the one before, and shows it.
const step = next => {
  const [a, b] = meta.conns[conn].packets;
  const at = selected >= a && selected < b ? selected : next ? a - 1 : b;
  let i = at + (next ? 1 : -1);
  if (matches) {
    const k = firstAt(matches, 0, matches.length, next ? at + 1 : at) - (next ? 0 : 1);
    i = matches[k] ?? -1;
  }
  if (i < a || i >= b) return;
  const t = packets.time[i], span = to - from;
  if (t < from || t > to) view(t - span / 2, t + span / 2);
  select(i);
};

const panelAt = y => panels.find(p => y >= p.top && y <= p.top + p.height);

// nearest returns the packet drawn closest to a point, or -1.
const nearest = (px, py) => {
  const p = panelAt(py);
  if (!p) return -1;
  let best = -1, least = 12;
  if (p.name === 'sequence') {
    shown(i => {
      const w = wire(i, p), dx = w.x1 - w.x0, dy = w.y1 - w.y0;
      const s = Math.min(1, Math.max(0, ((px - w.x0) * dx + (py - w.y0) * dy) / (dx * dx + dy * dy)));
      const d = Math.hypot(px - w.x0 - s * dx, py - w.y0 - s * dy);
      if (d < least) { least = d; best = i; }
    });
  } else if (p.name === 'PSN') {
    shown(i => {
      if (((packets.flags[i] & ofB) ? 1 : 0) !== space) return;
      const d = Math.hypot(px - x(packets.time[i]), py - numberY(p, packets.number[i]));
      if (d < least) { least = d; best = i; }
    });
  }
  return best;
};

const opAt = (px, py) => {
  const b = opBoxes.find(b => px >= b.x0 - 1 && px <= b.x1 + 1 && py >= b.y && py <= b.y + 14);
  return b ? b.o : -1;
};

const callAt = (px, py) => {
  const p = panelAt(py);
  if (!p || p.name !== 'verbs') return -1;
  const b = callBoxes.reduce((a, b) => Math.abs(b.px - px) < Math.abs((a?.px ?? -1e9) - px) ? b : a, null);
  return b && Math.abs(b.px - px) < 6 ? b.i : -1;
};

const showTip = (px, py) => {
  const tip = byId('tip');
  const i = nearest(px, py), o = i < 0 ? opAt(px, py) : -1, c = i < 0 && o < 0 ? callAt(px, py) : -1;
  tip.hidden = i < 0 && o < 0 && c < 0;
  if (tip.hidden) return;
  tip.textContent = i >= 0 ? packetText(i) : o >= 0 ? opText(o) + opCalls(o) : `${duration(meta.calls[c].time)}\n${meta.calls[c].text}`;
  const box = canvas.getBoundingClientRect(), stage = byId('stage').getBoundingClientRect();
  const y = py + box.top - stage.top, below = y + 14 + tip.offsetHeight < stage.height;
  tip.style.left = Math.max(0, Math.min(px + 14, width - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (below ? y + 14 : Math.max(0, y - 10 - tip.offsetHeight)) + 'px';
};

const click = (px, py) => {
  if (px < gutter && panelAt(py)?.name === 'PSN') return otherEnd();
  const i = nearest(px, py);
  if (i >= 0) return select(i);
  const o = opAt(px, py);
  if (o >= 0) {
    const margin = Math.max(1000, (ops.end[o] - ops.start[o]) * .15);
    view(ops.start[o] - margin, ops.end[o] + margin);
    const [a, b] = meta.conns[conn].packets;
    for (let j = firstAt(packets.time, a, b, ops.start[o]); j < b; j++) {
      if (packets.op[j] === o) return select(j);
    }
  }
};

const listen = () => {
  let drag = null;
  canvas.addEventListener('wheel', e => {
    e.preventDefault();
    const span = to - from;
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const d = e.deltaX / width * span;
      return view(from + d, to + d);
    }
    const t = timeAt(e.offsetX), f = Math.exp(Math.max(-200, Math.min(200, e.deltaY)) * .003);
    view(t - (t - from) * f, t + (to - t) * f);
  }, { passive: false });
  canvas.addEventListener('pointerdown', e => {
    drag = { x: e.offsetX, y: e.offsetY, from, to, far: false, range: e.shiftKey };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener('pointermove', e => {
    if (!drag) return showTip(e.offsetX, e.offsetY);
    drag.far ||= Math.abs(e.offsetX - drag.x) > 4;
    if (!drag.far) return;
    if (drag.range) {
      draw();
      g.fillStyle = colours.text; g.globalAlpha = .12;
      g.fillRect(drag.x, 0, e.offsetX - drag.x, height); g.globalAlpha = 1;
      return;
    }
    const d = (e.offsetX - drag.x) / (width - gutter - right) * (drag.to - drag.from);
    view(drag.from - d, drag.to - d);
  });
  canvas.addEventListener('pointerup', e => {
    const was = drag;
    drag = null;
    if (!was) return;
    if (!was.far) return click(e.offsetX, e.offsetY);
    if (was.range) view(timeAt(Math.min(was.x, e.offsetX)), timeAt(Math.max(was.x, e.offsetX)));
  });
  canvas.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
  canvas.addEventListener('dblclick', reset);
  canvas.addEventListener('keydown', e => {
    const s = to - from, m = (from + to) / 2;
    const move = { '+': [m - s / 4, m + s / 4], '-': [m - s, m + s], ArrowLeft: [from - s / 8, to - s / 8],
      ArrowRight: [from + s / 8, to + s / 8] }[e.key];
    if (move) view(...move);
    if (e.key === '0') reset();
    if (e.key === 'e') otherEnd();
    if (e.key === 'n' || e.key === 'p') step(e.key === 'n');
  });
  byId('filter').addEventListener('input', applyFilter);
  byId('reset').addEventListener('click', reset);
  byId('theme').addEventListener('click', () => setTheme(!document.documentElement.classList.contains('dark')));
  window.addEventListener('resize', () => { layout(); redraw(); });
};

const setTheme = dark => {
  document.documentElement.classList.toggle('dark', dark);
  readColours();
  drawLegend();
  redraw();
};

const drawLegend = () => {
  const box = byId('legend'), scale = devicePixelRatio || 1;
  box.replaceChildren();
  const used = new Set();
  for (let i = 0; i < packets.kind.length; i++) used.add(packets.kind[i]);
  meta.kinds.forEach((name, kind) => {
    if (!used.has(kind)) return;
    const e = element('span'), c = document.createElement('canvas');
    c.width = 14 * scale; c.height = 12 * scale;
    const ctx = c.getContext('2d');
    ctx.scale(scale, scale);
    ctx.fillStyle = ctx.strokeStyle = colours[kindColours[kind]];
    mark(ctx, kind, 7, 6, 4.5);
    e.append(c, name);
    e.title = 'filter by it';
    e.setAttribute('role', 'button');
    press(e, () => {
      const word = name.replace(' ', '-');
      byId('filter').value = byId('filter').value === word ? '' : word;
      applyFilter();
    });
    box.append(e);
  });
  box.append(element('span', 'wheel zooms, drag moves, shift-drag zooms to a range, double click shows all'));
};

const start = async () => {
  await load();
  const frames = meta.files.reduce((n, f) => n + f.frames, 0);
  byId('about').textContent = `${meta.files.map(f => f.name).join(', ')} · ${frames.toLocaleString('en')} frames · `
    + `${duration(meta.span)} from ${meta.start}` + meta.files.filter(f => f.error).map(f => ` · ${f.name}: ${f.error}`).join('')
    + (meta.leftOut ? ` · ${meta.leftOut} packets left out` : '');
  readColours();
  listConns();
  listen();
  layout();
  setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
  if (meta.conns.length > 0) {
    const order = ['bad', 'warn', 'good'];
    choose(order.reduce((best, g) => best >= 0 ? best : meta.conns.findIndex(c => c.grade === g), -1));
  } else {
    byId('health').hidden = true;
  }
  draw();
};

// verbenaView lets tests see what is drawn.
window.verbenaView = {
  ready: start().then(() => true),
  state: () => ({ conn, from, to, selected, drawn, thinned: meta.conns.length > 0 && thinned(), matches: matches?.length ?? -1,
    panels: panels.map(p => p.name) }),
  view: (a, b) => { view(a, b); draw(); },
  place: i => {
    const p = panels.find(p => p.name === 'PSN'), box = canvas.getBoundingClientRect();
    return { x: box.left + x(packets.time[i]), y: box.top + numberY(p, packets.number[i]) };
  },
  colours: (name, ...times) => {
    const p = panels.find(p => p.name === name), scale = devicePixelRatio || 1;
    const row = g.getImageData(0, (p.top + p.height - 8) * scale, canvas.width, 1).data;
    return times.map(t => { const k = 4 * Math.round(x(t) * scale); return row.slice(k, k + 4).join(); });
  },
  text: i => packetText(i),
  time: i => packets.time[i],
  wire: i => {
    const p = panels.find(p => p.name === 'sequence'), w = wire(i, p);
    return { Leaves: timeAt(w.x0), Arrives: timeAt(w.x1), Down: w.y1 > w.y0 };
  },
  psns: () => [low, high].map(n => onWire(space, n)),
  rows: kind => {
    const out = [];
    packets.kind.forEach((k, i) => { if (meta.kinds[k] === kind) out.push(i); });
    return out;
  },
  draw,
};
