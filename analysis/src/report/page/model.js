'use strict';

// The profile: the columns of the data block, and the sums over them that the views show.
//
// Two trees stand for all call chains. The nodes of the first are frames (a function at a line), those of the second
// functions, so that calls from several lines of a function are one box of the flame graph. Both are columns in an order in
// which callers stand before those that they call, and what is below a node lies between the node and `end`.

/** A tree as columns. */
class CallTree {
  /**
   * @param {ArrayLike<number>} depths 0 for the root, which is first
   */
  constructor(depths) {
    const length = depths.length;
    this.length = length;
    this.depth = Int32Array.from(depths);
    this.parent = new Int32Array(length);
    this.end = new Int32Array(length);
    const path = [];
    for (let node = 0; node < length; node++) {
      const depth = this.depth[node];
      while (path.length > depth) this.end[path.pop()] = node;
      this.parent[node] = depth > 0 ? path[depth - 1] : -1;
      path.push(node);
    }
    for (const node of path) this.end[node] = length;
  }

  /** Adds to each node what is below it. */
  accumulate(values) {
    for (let node = this.length - 1; node > 0; node--) values[this.parent[node]] += values[node];
  }
}

/**
 * A column of sums. In a comparison the values are differences, and each has what the older profile had, and its variance.
 */
class Sums {
  constructor(length, isComparison) {
    this.value = new Float64Array(length);
    this.old = isComparison ? new Float64Array(length) : null;
    this.variance = isComparison ? new Float64Array(length) : null;
  }

  /** Adds the sum at a place of other sums to that at a place of these. */
  add(place, sums, other) {
    this.value[place] += sums.value[other];
    if (this.old === null) return;
    this.old[place] += sums.old[other];
    this.variance[place] += sums.variance[other];
  }

  /** These sums, with what is below each node of a tree. */
  accumulated(tree) {
    const sums = new Sums(0, false);
    for (const column of ['value', 'old', 'variance']) {
      sums[column] = this[column] && this[column].slice();
      if (sums[column] !== null) tree.accumulate(sums[column]);
    }
    return sums;
  }

  /** Whether there is nothing at a place, on neither side. */
  isNothing(place) {
    return this.value[place] === 0 && (this.old === null || this.old[place] === 0);
  }
}

class Profile {
  constructor(data) {
    this.data = data;
    this.names = data.names;
    this.frameFunction = Int32Array.from(data.frames.function);
    this.lines = new CallTree(data.tree.depth);
    this.lineFrame = Int32Array.from(data.tree.frame);
    this.mergeLines();
    this.sampleNode = Int32Array.from(data.samples.node);
    this.sampleThread = Int32Array.from(data.samples.thread);
    const columns = (one) => one.map((column) => Float64Array.from(column));
    this.sampleValues = columns(data.samples.values);
    // Only in a comparison: which samples are of the older profile, and their variances.
    this.isComparison = data.samples.base !== undefined;
    this.sampleBase = Uint8Array.from(data.samples.base ?? []);
    this.sampleVariances = columns(data.samples.variances ?? []);
  }

  /** Makes the tree of functions from that of frames. */
  mergeLines() {
    const { lines } = this;
    const functions = this.names.length;
    const known = new Map();
    const merged = new Int32Array(lines.length);
    const parents = [-1];
    const names = [-1];
    for (let node = 1; node < lines.length; node++) {
      const parent = merged[lines.parent[node]];
      const name = this.frameFunction[this.lineFrame[node]];
      const key = parent * functions + name;
      let place = known.get(key);
      if (place === undefined) {
        place = parents.length;
        known.set(key, place);
        parents.push(parent);
        names.push(name);
      }
      merged[node] = place;
    }

    // In the order of names; `parents` are younger than none of their children, so that sorting by parent is enough.
    const order = Array.from(parents.keys()).slice(1).sort((a, b) => parents[a] - parents[b] || names[a] - names[b]);
    const begin = new Int32Array(parents.length + 1);
    for (const node of order) begin[parents[node] + 1]++;
    for (let node = 1; node < begin.length; node++) begin[node] += begin[node - 1];
    const depths = [];
    const place = new Int32Array(parents.length);
    this.flameFunction = new Int32Array(parents.length);
    const waiting = [[0, 0]];
    while (waiting.length > 0) {
      const [node, depth] = waiting.pop();
      place[node] = depths.length;
      this.flameFunction[depths.length] = names[node];
      depths.push(depth);
      for (let child = begin[node + 1] - 1; child >= begin[node]; child--) waiting.push([order[child], depth + 1]);
    }
    this.flame = new CallTree(depths);
    this.flameOfLine = merged.map((node) => place[node]);
  }

  /** The object that a function is in; empty for the program itself, which most are in, and if the name contains it. */
  objectOf(name) {
    const object = this.data.objects[this.data.object[name]];
    return object === this.data.program || this.names[name].startsWith(`[${object}]`) ? '' : object;
  }

  /** The sums for one sample type, of all threads (-1) or of one. */
  measure(type, thread) {
    return new Measure(this, type, thread);
  }
}

class Measure {
  constructor(profile, type, thread) {
    this.profile = profile;
    this.type = profile.data.types[type];
    const { lines, flame, flameFunction, names } = profile;
    const values = profile.sampleValues[type];

    // Shares are of the whole profile, what a filter took out of it included; those of a thread are of the thread, and those of
    // a comparison of the whole older profile.
    const { isComparison } = profile;
    const isOfThread = thread >= 0 && !isComparison;
    this.total = isOfThread ? 0 : this.type.total;
    this.hasNegative = false;
    this.lineSelf = new Sums(lines.length, isComparison);
    const variances = profile.sampleVariances[type];
    for (let sample = 0; sample < values.length; sample++) {
      if (thread >= 0 && profile.sampleThread[sample] !== thread) continue;
      const node = profile.sampleNode[sample];
      this.lineSelf.value[node] += values[sample];
      if (isComparison) {
        if (profile.sampleBase[sample] === 1) this.lineSelf.old[node] -= values[sample];
        this.lineSelf.variance[node] += variances[sample];
      }
      if (isOfThread) this.total += Math.abs(values[sample]);
    }
    this.lineWhole = this.lineSelf.accumulated(lines);

    this.self = new Sums(flame.length, isComparison);
    for (let node = 0; node < lines.length; node++) {
      this.self.add(profile.flameOfLine[node], this.lineSelf, node);
      if (this.lineSelf.value[node] < 0) this.hasNegative = true;
    }
    this.whole = this.self.accumulated(flame);
    // A box is as wide as its value. In a comparison it is as wide as the larger of its two own values, with those below it, so
    // that functions that are gone have a box. After a base was subtracted it is as wide as the amount of change.
    this.size = this.whole.value;
    if (isComparison || this.hasNegative) {
      const { value, old } = this.self;
      this.size = isComparison ? value.map((one, node) => Math.max(one + old[node], old[node])) : value.map(Math.abs);
      flame.accumulate(this.size);
    }

    this.flat = new Sums(names.length, isComparison);
    this.cum = new Sums(names.length, isComparison);
    walk(flame, flameFunction, names.length, (node, name, isOutermost) => {
      this.flat.add(name, this.self, node);
      if (isOutermost) this.cum.add(name, this.whole, node);
    });
  }

  /** What is spent in functions that are marked, and in those that they call, in words: each sample once. */
  wordsOfMarked(marked) {
    const { flame, flameFunction, isComparison } = this.profile;
    const sum = new Sums(1, isComparison);
    for (let node = 1; node < flame.length; ) {
      if (marked[flameFunction[node]]) {
        sum.add(0, this.whole, node);
        node = flame.end[node];
      } else {
        node++;
      }
    }
    return this.words(sum, 0);
  }

  /** The functions that call `name` and those that it calls, with what each sample spends in such calls, counted once. */
  neighboursOf(name) {
    const { flame, flameFunction, names, isComparison } = this.profile;
    const callers = new Map();
    const callees = new Map();
    const add = (map, other, node) => {
      if (!map.has(other)) map.set(other, new Sums(1, isComparison));
      map.get(other).add(0, this.whole, node);
    };
    // How many calls of each kind the path to the node has, by the other function.
    const above = new Int32Array(names.length + 1);
    const below = new Int32Array(names.length + 1);
    const path = [];
    for (let node = 1; node < flame.length; node++) {
      while (path.length > flame.depth[node] - 1) {
        const [caller, callee] = path.pop();
        if (callee === name) above[caller + 1]--;
        if (caller === name) below[callee + 1]--;
      }
      const caller = flameFunction[flame.parent[node]];
      const callee = flameFunction[node];
      // Calls of a function by itself are none of its callers' and callees', as in pprof.
      if (caller === callee) {
        path.push([-2, -2]);
        continue;
      }
      if (callee === name && above[caller + 1]++ === 0) add(callers, caller, node);
      if (caller === name && below[callee + 1]++ === 0) add(callees, callee, node);
      path.push([caller, callee]);
    }
    const sorted = (map) =>
      Array.from(map, ([other, sums]) => ({ name: other, sums }))
        .filter(({ sums }) => !sums.isNothing(0))
        .sort((a, b) => Math.abs(b.sums.value[0]) - Math.abs(a.sums.value[0]) || a.name - b.name);
    return { callers: sorted(callers), callees: sorted(callees) };
  }

  /** For each file that has lines of the function: what each line has itself, and with what it calls. */
  linesOf(name) {
    const { lines, lineFrame, data, isComparison } = this.profile;
    const { frames } = data;
    const files = new Map();
    // Numbers of the function's lines, so that a line that calls itself counts once.
    const keys = new Map();
    const keyOfFrame = new Map();
    const open = [];
    const path = [];
    for (let node = 1; node < lines.length; node++) {
      while (path.length > lines.depth[node] - 1) {
        const key = path.pop();
        if (key >= 0) open[key]--;
      }
      const frame = lineFrame[node];
      let key = -1;
      if (frames.function[frame] === name) {
        const file = frames.file[frame];
        const line = frames.line[frame];
        key = keyOfFrame.get(frame) ?? -1;
        if (key < 0) {
          const place = `${file}:${line}`;
          if (!keys.has(place)) keys.set(place, keys.size);
          key = keys.get(place);
          keyOfFrame.set(frame, key);
        }
        if (!files.has(file)) files.set(file, { start: 0, lines: new Map() });
        const entry = files.get(file);
        if (entry.start === 0) entry.start = frames.start[frame];
        if (!entry.lines.has(line)) entry.lines.set(line, { flat: new Sums(1, isComparison), cum: new Sums(1, isComparison) });
        const { flat, cum } = entry.lines.get(line);
        flat.add(0, this.lineSelf, node);
        open[key] = (open[key] ?? 0) + 1;
        if (open[key] === 1) cum.add(0, this.lineWhole, node);
      }
      path.push(key);
    }
    return files;
  }

  /** A value with its unit, as `3.03s`. */
  label(value) {
    return unitOf(value, this.type.unit).format(value);
  }

  /** A difference with its sign. */
  signed(value) {
    return (value > 0 ? '+' : '') + this.label(value);
  }

  /** The value at a place of sums: with its sign where it is a difference. */
  shown(sums, place) {
    return this.profile.isComparison ? this.signed(sums.value[place]) : this.label(sums.value[place]);
  }

  /** Two equal runs differ by more than this in 1 of 20 cases; null where the number of samples is not known. */
  noise(sums, place) {
    if (this.type.noise === undefined) return null;
    const [factor, added] = this.type.noise;
    return Math.round(Math.sqrt(sums.variance[place] * factor + added));
  }

  /** Whether a difference is within noise. */
  isNoise(sums, place) {
    return this.profile.isComparison && Math.abs(sums.value[place]) <= (this.noise(sums, place) ?? -1);
  }

  /** How much of a box is more or less, from -1 to 1. */
  change(node) {
    const { value, old } = this.whole;
    const larger = old === null ? this.size[node] : Math.max(old[node], old[node] + value[node]);
    return larger > 0 ? value[node] / larger : 0;
  }

  /** What is at a place of sums, in words. */
  words(sums, place) {
    const value = sums.value[place];
    if (!this.profile.isComparison) return `${this.label(value)}, ${this.share(value)} of the total`;
    const old = sums.old[place];
    const noise = this.noise(sums, place);
    const about = noise === null ? '' : ` ±${this.label(noise)}`;
    return `old ${this.label(old)}, new ${this.label(old + value)}: ${this.signed(value)}${about}, ${this.share(value)} of old`;
  }

  /** The unit for all rows of the table, as in a text report: in which the least of them is 0.01 or more, or their own. */
  rowUnit() {
    let least = Infinity;
    for (let name = 0; name < this.profile.names.length; name++) {
      const value = Math.abs(this.flat.value[name]) || Math.abs(this.cum.value[name]);
      if (value > 0 && value < least) least = value;
    }
    if (least === Infinity) least = this.total;
    const own = unitOf(least, this.type.unit);
    const isOwn = own.name === unitOf(this.total, this.type.unit).name || 100 * least >= this.total;
    return isOwn ? own : unitOf(100 * least, this.type.unit);
  }

  /** A value's share of the total, as `12.21%`. */
  share(value) {
    return percentOf(value, this.total);
  }
}

/** Visits all nodes but the root with their functions; `isOutermost` unless a caller is of the same function. */
function walk(tree, functionOf, functions, visit) {
  const open = new Int32Array(functions);
  const path = [];
  for (let node = 1; node < tree.length; node++) {
    while (path.length > tree.depth[node] - 1) open[path.pop()]--;
    const name = functionOf[node];
    visit(node, name, open[name] === 0);
    open[name]++;
    path.push(name);
  }
}

const UNITS = {
  nanoseconds: [['hrs', 3.6e12], ['s', 1e9], ['ms', 1e6], ['us', 1e3], ['ns', 1]],
  microseconds: [['hrs', 3.6e9], ['s', 1e6], ['ms', 1e3], ['us', 1]],
  milliseconds: [['hrs', 3.6e6], ['s', 1e3], ['ms', 1]],
  seconds: [['hrs', 3600], ['s', 1]],
  bytes: [['TB', 2 ** 40], ['GB', 2 ** 30], ['MB', 2 ** 20], ['kB', 1024], ['B', 1]],
};

class Unit {
  constructor(name, factor) {
    this.name = name;
    this.factor = factor;
  }

  /** As pprof writes values: with two decimals unless they are zero; what is counted has no unit. */
  format(value) {
    const number = (value / this.factor).toFixed(2).replace(/\.00$/, '');
    return number === '0' || number === '-0' ? '0' : number + this.name;
  }
}

/** The largest unit of which a value is one or more. */
function unitOf(value, unit) {
  const units = UNITS[unit] ?? [['', 1]];
  return new Unit(...(units.find(([, size]) => Math.abs(value) >= size) ?? units[units.length - 1]));
}

function labelOf(value, unit) {
  return unitOf(value, unit).format(value);
}

/** A share as pprof writes it: two decimals from one percent on, two digits below. */
function percentOf(value, total) {
  const percent = total === 0 ? 0 : (100 * value) / total;
  const size = Math.abs(percent);
  if (size >= 99.95 && size <= 100.05) return `${percent < 0 ? '-' : ''}100%`;
  if (size >= 1 || size === 0) return size === 0 ? '0%' : `${percent.toFixed(2)}%`;
  return `${Number(percent.toPrecision(2))}%`;
}
