// SPDX-License-Identifier: BSD-2-Clause

// A filter is words, all of which a packet must meet. parseFilter returns a function of its row,
// null for an empty filter, or undefined if a word is not known.

const parseFilter = text => {
  const tests = [];
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const test = parseWord(word);
    if (!test) return undefined;
    tests.push(test);
  }
  if (tests.length === 0) return null;
  return i => tests.every(test => test(i));
};

const parseWord = word => {
  const kind = meta.kinds.findIndex(k => k.replace(' ', '-') === word || k === word);
  if (kind >= 0) return i => packets.kind[i] === kind;
  const operation = meta.operations.findIndex(o => o.toLowerCase().replace(' ', '-') === word);
  if (operation >= 0) return i => packets.op[i] !== none && ops.operation[packets.op[i]] === operation;
  if (word === 'marked') return i => (packets.flags[i] & isMarked) !== 0;
  if (word === 'lost') return i => (packets.flags[i] & isLost) !== 0;
  if (word === 'a') return i => (packets.flags[i] & fromB) === 0;
  if (word === 'b') return i => (packets.flags[i] & fromB) !== 0;
  let m = /^#(\d+)$/.exec(word);
  if (m) return i => packets.op[i] !== none && ops.number[packets.op[i]] === Number(m[1]);
  m = /^psn=(\d+)(?:\.\.(\d+))?$/.exec(word);
  if (m) {
    const from = Number(m[1]), to = Number(m[2] ?? m[1]);
    // A range may contain the wrap. Comparisons with undefined are false.
    if (from > to) return i => psnOf(i) >= from || psnOf(i) <= to;
    return i => psnOf(i) >= from && psnOf(i) <= to;
  }
  m = /^len([<>=])(\d+)$/.exec(word);
  if (m) {
    const n = Number(m[2]);
    return i => m[1] === '<' ? packets.length[i] < n : m[1] === '>' ? packets.length[i] > n
      : packets.length[i] === n;
  }
  return null;
};
