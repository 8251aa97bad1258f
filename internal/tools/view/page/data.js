// SPDX-License-Identifier: BSD-2-Clause

// The capture, as Go has decoded it: meta says which columns lie where in the rows.

const bytesOf = id => {
  const node = document.getElementById(id);
  const text = node.textContent;
  node.textContent = '';
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
};

const inflate = async (bytes, format) => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const arrays = { f64: Float64Array, u32: Uint32Array, u8: Uint8Array };
const none = 0xffffffff;
const fromB = 1, ofB = 2, isMarked = 4, isLost = 8, isArrival = 16;

let meta, details, callTimes, packets = {}, ops = {}, samples = {}, levels = {};

const load = async () => {
  meta = JSON.parse(new TextDecoder().decode(await inflate(bytesOf('meta'), 'gzip')));
  details = bytesOf('details');
  callTimes = Float64Array.from(meta.calls, c => c.time);
  const rows = (await inflate(bytesOf('rows'), 'gzip')).buffer;
  for (const c of meta.columns) {
    const into = { packets, ops, samples, levels }[c.table];
    into[c.name] = new arrays[c.type](rows, c.offset, c.count);
  }
};

// fieldsOf resolves to the header fields of a packet: [layer, name, text].
let chunkNumber = -1, chunk;
const fieldsOf = async row => {
  const serial = packets.serial[row], n = Math.floor(serial / meta.chunkRows);
  if (n >= meta.chunks.length - 1) return [];
  if (n !== chunkNumber) {
    chunk = await inflate(details.subarray(meta.chunks[n], meta.chunks[n + 1]), 'deflate-raw');
    chunkNumber = n;
  }
  const b = chunk;
  let at = 0;
  const varint = () => {
    let v = 0n, shift = 0n;
    for (; ;) {
      const c = b[at++];
      v |= BigInt(c & 127) << shift;
      if (c < 128) return v;
      shift += 7n;
    }
  };
  for (let i = serial % meta.chunkRows; i > 0; i--) at = Number(varint()) + at;
  varint();
  const out = [];
  while (b[at] !== 0) {
    const [layer, name, form] = meta.fields[b[at++]];
    const v = varint();
    let text;
    if (form === 's') {
      text = new TextDecoder().decode(b.subarray(at, at + Number(v)));
      at += Number(v);
    } else if (form[0] === 'x') {
      text = '0x' + v.toString(16).padStart(Number(form.slice(1)), '0');
    } else {
      text = form === 'b' ? 'yes' : v.toString();
    }
    out.push([layer, name, text]);
  }
  return out;
};

// firstAt returns the first row of a sorted column in [from, to) that is not before t.
const firstAt = (column, from, to, t) => {
  while (from < to) {
    const mid = (from + to) >> 1;
    if (column[mid] < t) from = mid + 1; else to = mid;
  }
  return from;
};

const duration = ns => {
  const a = Math.abs(ns);
  if (a >= 1e9) return +(ns / 1e9).toPrecision(4) + ' s';
  if (a >= 1e6) return +(ns / 1e6).toPrecision(4) + ' ms';
  if (a >= 1e3) return +(ns / 1e3).toPrecision(4) + ' µs';
  return +ns.toPrecision(4) + ' ns';
};

const amount = (n, unit) => {
  for (const [f, s] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (n >= f) return +(n / f).toPrecision(4) + ' ' + s + unit;
  }
  return +n.toPrecision(4) + ' ' + unit;
};

const opTitle = o => `${meta.operations[ops.operation[o]]} #${ops.number[o]}`;

const opText = o => {
  let s = `${opTitle(o)}: ${ops.packets[o]} packet${ops.packets[o] === 1 ? '' : 's'}`;
  if (ops.repeated[o]) s += `, ${ops.repeated[o]} repeated`;
  if (ops.waited[o]) s += `, ${ops.waited[o]} RNR`;
  s += `, ${duration(ops.end[o] - ops.start[o])}`;
  if (ops.status[o] === 2) s += `, failed: ${meta.reasons[ops.reason[o]]}`;
  if (ops.status[o] === 0) s += ', no answer in the capture';
  return s;
};

// opCalls tells when an operation was posted and when it completed, if the capture has the calls.
const opCalls = o => {
  const before = ops.posted[o], after = ops.completed[o], lines = [];
  if (before !== none) {
    lines.push(`posted ${duration(ops.start[o] - meta.calls[before].time)} before: ${meta.calls[before].text}`);
  }
  if (after !== none) {
    lines.push(`completed ${duration(meta.calls[after].time - ops.end[o])} after: ${meta.calls[after].text}`);
  }
  return lines.map(l => '\n' + l).join('');
};

// onWire returns the PSN of a number, which counts from the first of its end.
const onWire = (ofB, n) => {
  const c = meta.conns[conn], bits = c.protocol === 'TRP' || c.protocol === 'iWARP' ? 32 : 24;
  return (n + (ofB ? c.b : c.a).base) % 2 ** bits;
};

// psnOf returns the PSN of a packet, or undefined for kinds that have none. For iWARP it is the
// offset in the stream, for UD the count of datagrams.
const psnOf = i => packets.kind[i] < 9 ? onWire(packets.flags[i] & ofB, packets.number[i]) : undefined;

// numberName names the numbers of a connection's packets.
const numberName = () => ({ iWARP: 'offset', UD: 'datagram' })[meta.conns[conn].protocol] ?? 'PSN';

// flightOf returns the time that a packet took, if captures of both ends say so.
const flightOf = i => meta.conns[conn].joined && packets.flight[i] !== none ? packets.flight[i] : undefined;

const packetText = i => {
  const f = packets.flags[i];
  let s = `${f & fromB ? 'B → A' : 'A → B'}  ${meta.kinds[packets.kind[i]]}`;
  if (psnOf(i) !== undefined) s += `  ${numberName()} ${psnOf(i)}`;
  if (packets.op[i] !== none) s += `  ${opTitle(packets.op[i])}`;
  s += `\n${duration(packets.time[i])}, ${packets.length[i]} bytes`;
  if (packets.rtt[i]) s += `, round trip ${duration(packets.rtt[i])}`;
  if (f & isMarked) s += '\nmarked: congestion experienced';
  const flight = flightOf(i);
  if (flight !== undefined) s += `, ${duration(flight)} on its way`;
  if (f & isArrival) s += '\nonly the receiver has captured it: when it arrived';
  if (f & isLost) s += meta.conns[conn].joined ? '\nlost: the receiver has not captured it' : '\ntaken for lost: sent again';
  return s;
};
