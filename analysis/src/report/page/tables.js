
// The table of functions, and what is told of a chosen one: callers, callees, source.

/** An element with attributes and children; text becomes text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'onclick') made.addEventListener('click', value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children);
  return made;
}

/** How many rows the table has at first, and how many are added at a time. */
const ROWS = 60;

const COLUMNS = [
  { id: 'flat', text: 'flat', title: 'in the function itself', order: 'descending' },
  { id: 'flat-share', text: 'flat%', title: 'in the function itself, of the total', sort: 'flat' },
  { id: 'sum', text: 'sum%', title: 'of this row and those above', isWide: true },
  { id: 'cum', text: 'cum', title: 'in the function and in those that it called', order: 'descending' },
  { id: 'cum-share', text: 'cum%', title: 'in the function and in those that it called, of the total', sort: 'cum' },
  { id: 'name', text: 'function', title: 'by name', order: 'ascending' },
];

class TopTable {
  constructor(profile, onChoose) {
    this.profile = profile;
    this.onChoose = onChoose;
    this.sort = { id: 'flat', order: 'descending' };
    this.rows = ROWS;
    this.chosen = -1;
    this.marked = null;
    this.rowOf = new Map();
    this.body = document.querySelector('#top tbody');
    this.more = document.getElementById('top-more');
    this.more.addEventListener('click', () => {
      this.rows += 10 * ROWS;
      this.grow();
    });
    this.heads = COLUMNS.map((column) => {
      const head = element('th', { scope: 'col', role: 'columnheader', class: column.isWide ? 'wide' : undefined });
      if (column.id === 'sum') {
        head.append(element('button', { type: 'button', disabled: true, title: column.title }, column.text));
      } else {
        const onclick = () => this.sortBy(column.sort ?? column.id);
        head.append(element('button', { type: 'button', title: `${column.title}; sorts the table`, onclick }, column.text));
      }
      return head;
    });
    document.querySelector('#top thead tr').append(...this.heads);
  }

  sortBy(id) {
    const column = COLUMNS.find((other) => other.id === id);
    const isSame = this.sort.id === id;
    const other = this.sort.order === 'ascending' ? 'descending' : 'ascending';
    this.sort = { id, order: isSame ? other : column.order };
    this.order();
    this.draw();
  }

  show(measure) {
    this.measure = measure;
    this.order();
    this.draw();
  }

  /** Marks functions, and shows no others; null for all. */
  mark(functions) {
    this.marked = functions;
    this.order();
    this.draw();
  }

  choose(name) {
    const mark = (row, isChosen) => {
      if (row === undefined) return;
      row.classList.toggle('chosen', isChosen);
      const button = row.querySelector('button');
      if (isChosen) button.setAttribute('aria-current', 'true');
      else button.removeAttribute('aria-current');
    };
    // The table may have thousands of rows, and two of them change.
    mark(this.rowOf.get(this.chosen), false);
    mark(this.rowOf.get(name), true);
    this.chosen = name;
  }

  /** Sorts; ties are in the order of names. */
  order() {
    const { flat, cum } = this.measure;
    const values = this.sort.id === 'cum' ? cum : flat;
    const by = {
      name: (a, b) => a - b,
      flat: (a, b) => Math.abs(values[a]) - Math.abs(values[b]),
      cum: (a, b) => Math.abs(values[a]) - Math.abs(values[b]),
    }[this.sort.id];
    const sign = this.sort.order === 'ascending' ? 1 : -1;
    this.names = Array.from(flat.keys()).filter((name) => flat[name] !== 0 || cum[name] !== 0);
    this.names.sort((a, b) => sign * by(a, b) || a - b);
    // Shares of all functions above, those that the search leaves out among them.
    let sum = 0;
    this.sums = new Map(this.names.map((name) => [name, (sum += flat[name])]));
    this.all = this.names.length;
    if (this.marked !== null) this.names = this.names.filter((name) => this.marked[name]);
  }

  draw() {
    COLUMNS.forEach((column, place) => {
      const isSorted = (column.sort ?? column.id) === this.sort.id && column.sort === undefined;
      const head = this.heads[place];
      if (isSorted) head.setAttribute('aria-sort', this.sort.order);
      else head.removeAttribute('aria-sort');
      const arrow = isSorted ? (this.sort.order === 'ascending' ? ' ▴' : ' ▾') : '';
      head.firstChild.textContent = column.text + arrow;
    });
    this.rowOf.clear();
    this.body.replaceChildren();
    this.grow();
    this.body.closest('.scroller').scrollTop = 0;
  }

  /** Adds the rows that are to be shown and are not there yet. */
  grow() {
    const { measure, profile } = this;
    const unit = measure.rowUnit();
    const names = this.names.slice(0, this.rows);
    this.body.append(...names.slice(this.rowOf.size).map((name) => {
      const [flat, cum] = [measure.flat[name], measure.cum[name]];
      const object = profile.objectOf(name);
      const classes = [name === this.chosen && 'chosen', this.marked !== null && 'match'].filter(Boolean).join(' ');
      const isChosen = name === this.chosen ? 'true' : undefined;
      const cell = (attributes, ...children) => element('td', { role: 'cell', ...attributes }, ...children);
      const row = element('tr', { role: 'row', class: classes || undefined },
        cell({}, unit.format(flat)),
        cell({ class: 'share' }, measure.share(flat)),
        cell({ class: 'share wide' }, measure.share(this.sums.get(name))),
        cell({}, unit.format(cum)),
        cell({ class: 'share' }, measure.share(cum)),
        cell({}, element('div', { class: 'cell' },
          functionButton(profile, name, this.onChoose, isChosen),
          object === '' ? '' : element('span', { class: 'object', title: object }, object))));
      this.rowOf.set(name, row);
      return row;
    }));
    const hidden = this.names.length - names.length;
    this.more.hidden = hidden <= 0;
    this.more.textContent = `Show ${Math.min(hidden, 10 * ROWS)} more`;
    const sum = names.reduce((total, name) => total + measure.flat[name], 0);
    const matching = this.marked === null ? '' : ` that match, of ${this.all}`;
    document.getElementById('top-summary').textContent =
      `Showing ${names.length} of ${this.names.length} functions${matching}, accounting for ${measure.label(sum)}, `
      + `${measure.share(sum)} of ${measure.label(measure.total)} total`;
  }
}

/** Letters of a name that are laid out, and that a tooltip has; all of it is in the heading of the chosen function. */
const LONGEST_SHOWN = 400;
const LONGEST_TITLE = 4096;

/** A function's name to click on, in three parts: where there is no room the middle one stays. */
function functionButton(profile, name, onChoose, current) {
  const whole = profile.names[name];
  const title = whole.length <= LONGEST_TITLE ? whole : `${whole.slice(0, LONGEST_TITLE)}…`;
  const { begin, end } = partsOf(whole);
  // What is as short as its end with a mark is not cut.
  const part = (kind, text) => element('span', { class: text.length < 3 ? 'least' : kind }, text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`);
  return element('button', {
    type: 'button', class: 'name', title, 'aria-label': title, 'aria-current': current, 'data-name': name, onclick: () => onChoose(name),
  }, part('around', whole.slice(0, begin)), part('least', whole.slice(begin, end)), part('around', whole.slice(end)));
}

/** What of a selection is to be copied: rows and cells as lines and tabs, and names whole. Null where no name is all in it. */
function copied(profile, selection) {
  if (selection.rangeCount === 0) return null;
  const fragment = selection.getRangeAt(0).cloneContents();
  const names = fragment.querySelectorAll('[data-name]');
  if (names.length === 0) return null;
  for (const one of names) one.replaceWith(profile.names[Number(one.dataset.name)], ' ');
  const textOf = (node) => node.textContent.trim();
  const rows = Array.from(fragment.querySelectorAll('tr'), (row) => Array.from(row.children, textOf).join('\t'));
  return rows.length > 0 ? rows.join('\n') : textOf(fragment);
}

class FunctionView {
  constructor(profile, onChoose) {
    this.profile = profile;
    this.onChoose = onChoose;
    this.name = -1;
    // Lines of text, by file and number.
    this.text = new Map();
    for (const { file, line, text } of profile.data.sources) {
      if (!this.text.has(file)) this.text.set(file, new Map());
      text.split('\n').forEach((words, place) => this.text.get(file).set(line + place, words));
    }
  }

  show(measure) {
    this.measure = measure;
    this.draw();
  }

  choose(name) {
    this.name = name;
    this.draw();
  }

  draw() {
    const { profile, measure, name } = this;
    document.getElementById('function-none').hidden = name >= 0;
    document.getElementById('function-body').hidden = name < 0;
    document.getElementById('function-heading').textContent =
      name < 0 ? 'Callers, callees and source' : profile.names[name];
    document.getElementById('copy').hidden = name < 0;
    if (name < 0) return;
    const [flat, cum] = [measure.flat[name], measure.cum[name]];
    document.getElementById('function-summary').textContent =
      `flat ${measure.label(flat)} (${measure.share(flat)}), cum ${measure.label(cum)} (${measure.share(cum)})`;
    const { callers, callees } = measure.neighboursOf(name);
    this.drawNeighbours('callers', callers, 'none: it is outermost');
    this.drawNeighbours('callees', callees, 'none: all of it is its own');
    this.drawSource(measure.linesOf(name));
  }

  drawNeighbours(id, neighbours, none) {
    const { profile, measure } = this;
    const rows = neighbours.map(({ name, value }) => element('tr', {},
      element('td', {}, measure.label(value)),
      element('td', { class: 'share' }, percentOf(value, measure.cum[this.name])),
      element('td', {}, name < 0 ? 'the program’s start' : element('div', { class: 'cell' }, functionButton(profile, name, this.onChoose)))));
    if (rows.length === 0) rows.push(element('tr', {}, element('td', { class: 'none' }, none)));
    document.querySelector(`#${id} tbody`).replaceChildren(...rows);
  }

  drawSource(files) {
    const figures = Array.from(files)
      .filter(([file, { lines }]) => this.profile.data.files[file] !== '' || !lines.has(0))
      .sort(([a], [b]) => a - b)
      .map(([file, entry]) => this.figureOf(file, entry));
    if (figures.length === 0) figures.push(element('p', { class: 'note' }, 'No source lines are known of this function.'));
    document.getElementById('source').replaceChildren(...figures);
  }

  /** Lines of one file: those with text in this page, those with samples in any case. */
  figureOf(file, { start, lines }) {
    const { measure } = this;
    const text = this.text.get(file) ?? new Map();
    const sampled = Array.from(lines.keys()).filter((line) => line > 0).sort((a, b) => a - b);
    const shown = new Set(sampled);
    const [first, last] = [sampled[0] ?? 0, sampled[sampled.length - 1] ?? 0];
    const from = start > 0 && start <= first && first - start < 200 ? start - 1 : first - 6;
    for (const line of text.keys()) if (line >= from && line <= last + 6) shown.add(line);
    const most = Math.max(...sampled.map((line) => Math.abs(lines.get(line).cum)), 0);
    let before = null;
    const rows = [];
    for (const line of Array.from(shown).sort((a, b) => a - b)) {
      if (before !== null && line > before + 1) {
        const gap = element('td', { class: 'number' }, '⋯');
        rows.push(element('tr', {}, element('td'), element('td'), gap, element('td')));
      }
      before = line;
      const sums = lines.get(line);
      const row = element('tr', { class: sums === undefined ? undefined : 'hot' },
        element('td', {}, sums === undefined || sums.flat === 0 ? (sums === undefined ? '' : '.') : measure.label(sums.flat)),
        element('td', {}, sums === undefined ? '' : measure.label(sums.cum)),
        element('td', { class: 'number' }, String(line)),
        element('td', {}, text.get(line) ?? ''));
      if (sums !== undefined && most > 0) {
        row.style.setProperty('--share', `${((100 * Math.abs(sums.cum)) / most).toFixed(1)}%`);
      }
      rows.push(row);
    }
    const path = this.profile.data.files[file];
    const caption = text.size > 0 ? path : `${path} (its text is not in this page)`;
    const heads = ['flat', 'cum', 'line', 'source'].map((head) => element('th', { scope: 'col' }, head));
    const table = element('table', {}, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
    const scroller = element('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': `Lines of ${path}` }, table);
    return element('figure', {}, element('figcaption', {}, caption), scroller);
  }
}

