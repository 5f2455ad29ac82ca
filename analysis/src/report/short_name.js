
// Names made shorter, for boxes and cells that are too narrow for them. `short_name.rs` has the same rules. The page has this
// file in its script, and each flame graph as SVG in its own.

/** Brackets within brackets that are looked into for the type of a method. */
const DEEPEST_TYPE = 4;

const knownParts = new Map();

/**
 * The parts of a name between `::`, without what is in brackets; how many of the last ones are the least that says which
 * function it is; and from where to where the last one stands in the name.
 *
 * Rust's `<a::B<c> as d::E>::f` has the parts a, B and f; C++'s `void std::vector<int>::at(int)` has std, vector and at; Go's
 * `encoding/json.(*decodeState).value` has one, `json.(*decodeState).value`; and `[libc.so.6]+0x1234` has one, `+0x1234`.
 */
function partsOf(name) {
  let found = knownParts.get(name);
  if (found === undefined) {
    found = scanned(name, 0);
    knownParts.set(name, found);
  }
  return found;
}

function scanned(name, level) {
  const whole = { parts: [name], least: 1, begin: 0, end: name.length };
  const offset = /^\[.*\](\+0x[0-9a-fA-F]+)$/s.exec(name);
  // A function without a symbol.
  if (offset !== null) return { ...whole, parts: [offset[1]], begin: name.length - offset[1].length };
  if (!name.includes('::') && !/[\w>\u0080-\uffff][(<]/.test(name)) {
    // Go: a path before the package.
    const bracket = name.search(/[([ ]/);
    const slash = name.lastIndexOf('/', bracket < 0 ? name.length : bracket);
    if (slash < 0 || !/^[\w.-]/.test(name) || name.includes(' ')) return whole;
    return { ...whole, parts: [name.slice(slash + 1)], begin: slash + 1 };
  }
  let parts = [];
  let part = '';
  let [begin, end] = [0, -1];
  let [depth, braces] = [0, 0];
  // Where the brackets begin that the part begins with, and where they end.
  let [opened, closed] = [-1, -1];
  const add = () => {
    if (part !== '') parts.push(part);
    else if (closed > opened && opened >= 0 && level < DEEPEST_TYPE) parts.push(...typeParts(name.slice(opened + 1, closed), level + 1));
  };
  for (let place = 0; place < name.length; place++) {
    const letter = name[place];
    const isOutside = depth === 0 && braces === 0;
    if (isOutside && part === '' && end < 0 && name.startsWith('operator', place) && !/[\w\u0080-\uffff]/.test(name[place + 8] ?? '')) {
      let after = place + 8;
      if (name.startsWith('()', after)) after += 2;
      else while (after < name.length && name[after] !== '(' && !name.startsWith(' <', after)) after++;
      part = name.slice(place, after);
      [begin, end] = [place, after];
      place = after - 1;
    } else if (isOutside && name.startsWith('::', place)) {
      add();
      part = '';
      [begin, end] = [place + 2, -1];
      [opened, closed] = [-1, -1];
      place++;
    } else if (isOutside && letter === ' ' && part !== '' && (end < 0 || name[end] === '<') && /[A-Za-z_~{<]/.test(name[place + 1] ?? '')
      && !name.startsWith('const', place + 1)) {
      // What came before is the type of the function's value.
      parts = [];
      part = '';
      [begin, end] = [place + 1, -1];
    } else if ('<(['.includes(letter)) {
      if (isOutside && part === '' && opened < 0) opened = place;
      if (isOutside && part !== '' && end < 0) end = place;
      depth++;
    } else if (')]'.includes(letter) || (letter === '>' && name[place - 1] !== '-')) {
      depth = Math.max(depth - 1, 0);
      if (depth === 0 && closed < 0) closed = place;
    } else if (depth === 0 && end < 0) {
      if (letter === '{') braces++;
      if (letter === '}') braces = Math.max(braces - 1, 0);
      part += letter;
    }
  }
  const isNamed = part !== '';
  add();
  if (parts.length === 0 || !isNamed) return whole;
  // Closures and operators are told apart by what they are in.
  let least = 1;
  while (least < parts.length && /^(\{|operator(?![\w\u0080-\uffff]))/.test(parts[parts.length - least])) least++;
  return { parts, least, begin, end: end < 0 ? name.length : end };
}

/** Of what stands in the brackets that a name begins with, the type: of `&mut a::B as c::D` it is `a::B`. */
function typeParts(text, level) {
  const isFor = text.startsWith('impl ');
  let depth = 0;
  let [from, to] = [0, text.length];
  for (let place = 0; place < text.length; place++) {
    if ('<(['.includes(text[place])) depth++;
    else if (')]'.includes(text[place]) || (text[place] === '>' && text[place - 1] !== '-')) depth--;
    else if (depth === 0 && isFor && text.startsWith(' for ', place)) from = place + 5;
    else if (depth === 0 && !isFor && text.startsWith(' as ', place)) to = Math.min(to, place);
  }
  const plain = text.slice(from, to).replace(/^(?:[&*]|(?:mut|const|dyn|impl) )+/, '');
  return /^[A-Za-z_<]/.test(plain) ? scanned(plain, level).parts : [];
}

/**
 * A name in so many letters: all of it; or without what is in brackets; or without its first parts; or cut at the right.
 */
function fitted(name, room) {
  if (name.length <= room) return name;
  if (room < 3) return '';
  const { parts, least } = partsOf(name);
  // From the end, as far as they fit: each part of a name is looked at once, however many there are.
  let taken = 0;
  let first = parts.length;
  for (; first > 0; first--) {
    taken += parts[first - 1].length + (first < parts.length ? 2 : 0);
    if (taken > room && parts.length - first >= least) break;
  }
  const short = parts.slice(first).join('::');
  if (short.length <= room) return short;
  // No half of a character that takes two.
  return `${short.slice(0, room - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
