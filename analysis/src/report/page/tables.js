
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

// Columns of the table: `cell` makes the text of a row, `value` sorts, `sort` names another column that does. DIFFERENCES are those
// of a comparison.
const OWN = 'in the function itself';
const WITH_CALLEES = 'in the function and in those that it called';
const COLUMNS = [
  { text: 'flat', title: OWN, value: ({ flat }, name) => flat.value[name], cell: (row) => row.unit.format(row.flat) },
  { text: 'flat%', title: `${OWN}, of the total`, sort: 'flat', isShare: true, cell: (row) => row.share(row.flat) },
  { text: 'sum%', title: 'of this row and those above', isWide: true, isShare: true, cell: (row) => row.share(row.sum) },
  { text: 'cum', title: WITH_CALLEES, value: ({ cum }, name) => cum.value[name], cell: (row) => row.unit.format(row.cum) },
  { text: 'cum%', title: `${WITH_CALLEES}, of the total`, sort: 'cum', isShare: true, cell: (row) => row.share(row.cum) },
];
const DIFFERENCES = [
  { text: 'old', title: 'in the older profile', value: ({ old }, name) => old[name], cell: (row) => row.unit.format(row.old) },
  {
    text: 'new', title: 'in the newer profile', value: ({ old, value }, name) => old[name] + value[name],
    cell: (row) => row.unit.format(row.old + row.value),
  },
  {
    text: 'diff', title: 'how much more', value: ({ value }, name) => value[name],
    cell: (row) => (row.value > 0 ? '+' : '') + row.unit.format(row.value),
  },
  { text: '±', title: 'two equal runs differ by more in 1 of 20 cases', cell: (row) => (row.noise === null ? '?' : row.unit.format(row.noise)) },
  { text: 'diff%', title: 'how much more, of the total of the older profile', sort: 'diff', isWide: true, isShare: true, cell: (row) => row.share(row.value) },
];
const NAME = { text: 'function', title: 'by name' };

class TopTable {
  constructor(profile, onChoose) {
    this.profile = profile;
    this.onChoose = onChoose;
    this.columns = profile.isComparison ? [...DIFFERENCES, NAME] : [...COLUMNS, NAME];
    this.sort = { column: this.columns[profile.isComparison ? 2 : 0], order: 'descending' };
    this.rows = ROWS;
    this.chosen = -1;
    this.marked = null;
    // Only in a comparison: rows have cumulative values; rows within noise are hidden.
    this.isCum = false;
    this.isSignificant = false;
    this.rowOf = new Map();
    this.body = document.querySelector('#top tbody');
    this.more = document.getElementById('top-more');
    this.more.addEventListener('click', () => {
      this.rows += 10 * ROWS;
      this.grow();
    });
    this.heads = this.columns.map((column) => {
      const head = element('th', { scope: 'col', role: 'columnheader', class: column.isWide ? 'wide' : undefined });
      const sorting = this.columns.find((other) => other.text === (column.sort ?? column.text));
      if (sorting.value === undefined && sorting !== NAME) {
        head.append(element('button', { type: 'button', disabled: true, title: column.title }, column.text));
      } else {
        const onclick = () => this.sortBy(sorting);
        head.append(element('button', { type: 'button', title: `${column.title}; sorts the table`, onclick }, column.text));
      }
      return head;
    });
    document.querySelector('#top thead tr').append(...this.heads);
    document.getElementById('difference-choice').hidden = !profile.isComparison;
    const switched = (id, change) => {
      document.getElementById(id).addEventListener('change', (event) => {
        change(event.target.checked);
        this.order();
        this.draw();
      });
    };
    switched('with-callees', (isOn) => (this.isCum = isOn));
    switched('significant', (isOn) => (this.isSignificant = isOn));
  }

  sortBy(column) {
    const first = column === NAME ? 'ascending' : 'descending';
    const other = this.sort.order === 'ascending' ? 'descending' : 'ascending';
    this.sort = { column, order: this.sort.column === column ? other : first };
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
    const { measure, sort } = this;
    const { flat, cum } = measure;
    const { isComparison } = this.profile;
    // The rows of a comparison have one of the two.
    this.sums = this.isCum ? cum : flat;
    const values = isComparison ? this.sums : measure;
    const by = sort.column === NAME
      ? (a, b) => a - b
      : (a, b) => Math.abs(sort.column.value(values, a)) - Math.abs(sort.column.value(values, b));
    const sign = sort.order === 'ascending' ? 1 : -1;
    const isThere = (name) => (isComparison ? !this.sums.isNothing(name) : flat.value[name] !== 0 || cum.value[name] !== 0);
    this.names = Array.from(this.profile.names.keys()).filter(isThere);
    this.names.sort((a, b) => sign * by(a, b) || a - b);
    // Shares of all functions above, those that the search leaves out among them.
    let sum = 0;
    this.sumOf = new Map(this.names.map((name) => [name, (sum += flat.value[name])]));
    this.all = this.names.length;
    if (isComparison && this.isSignificant) this.names = this.names.filter((name) => !measure.isNoise(this.sums, name));
    this.noise = this.all - this.names.length;
    if (this.marked !== null) this.names = this.names.filter((name) => this.marked[name]);
  }

  draw() {
    this.columns.forEach((column, place) => {
      const isSorted = column === this.sort.column;
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

  /** What the columns read of a function. */
  rowFor(name, unit) {
    const { measure, sums } = this;
    const row = { unit, share: (value) => measure.share(value) };
    if (this.profile.isComparison) {
      return { ...row, old: sums.old[name], value: sums.value[name], noise: measure.noise(sums, name) };
    }
    return { ...row, flat: measure.flat.value[name], cum: measure.cum.value[name], sum: this.sumOf.get(name) };
  }

  /** Adds the rows that are to be shown and are not there yet. */
  grow() {
    const { measure, profile } = this;
    const unit = measure.rowUnit();
    const names = this.names.slice(0, this.rows);
    this.body.append(...names.slice(this.rowOf.size).map((name) => {
      const values = this.rowFor(name, unit);
      const object = profile.objectOf(name);
      const isChosen = name === this.chosen;
      const cell = (attributes, ...children) => element('td', { role: 'cell', ...attributes }, ...children);
      const figures = this.columns.filter((column) => column !== NAME).map((column) => {
        const classes = classesOf({ share: column.isShare, wide: column.isWide });
        return cell({ class: classes }, column.cell(values));
      });
      const classes = classesOf({ chosen: isChosen, match: this.marked !== null, noise: measure.isNoise(this.sums, name) });
      const row = element('tr', { role: 'row', class: classes }, ...figures,
        cell({}, element('div', { class: 'cell' },
          functionButton(profile, name, this.onChoose, isChosen ? 'true' : undefined),
          object === '' ? '' : element('span', { class: 'object', title: object }, object))));
      this.rowOf.set(name, row);
      return row;
    }));
    const hidden = this.names.length - names.length;
    this.more.hidden = hidden <= 0;
    this.more.textContent = `Show ${Math.min(hidden, 10 * ROWS)} more`;
    const matching = this.marked === null ? '' : ` that match, of ${this.all}`;
    const noise = this.noise === 0 ? '' : `; ${this.noise} within noise ${this.noise === 1 ? 'is' : 'are'} left out`;
    const shown = `Showing ${names.length} of ${this.names.length} functions${matching}`;
    const sum = names.reduce((total, name) => total + measure.flat.value[name], 0);
    document.getElementById('top-summary').textContent = profile.isComparison
      ? `${shown}${noise}. ${measure.words(measure.whole, 0)}.`
      : `${shown}, accounting for ${measure.label(sum)}, ${measure.share(sum)} of ${measure.label(measure.total)} total`;
  }
}

/** Names of classes that hold; undefined for none. */
function classesOf(classes) {
  return Object.keys(classes).filter((name) => classes[name]).join(' ') || undefined;
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
    const [flat, cum] = [measure.flat, measure.cum];
    const short = (sums) => `${measure.label(sums.value[name])} (${measure.share(sums.value[name])})`;
    document.getElementById('function-summary').textContent = profile.isComparison
      ? `flat: ${measure.words(flat, name)}; cum: ${measure.words(cum, name)}`
      : `flat ${short(flat)}, cum ${short(cum)}`;
    const { callers, callees } = measure.neighboursOf(name);
    this.drawNeighbours('callers', callers, 'none: it is outermost');
    this.drawNeighbours('callees', callees, 'none: all of it is its own');
    this.drawSource(measure.linesOf(name));
  }

  drawNeighbours(id, neighbours, none) {
    const { profile, measure } = this;
    const rows = neighbours.map(({ name, sums }) => {
      // The share of a difference could exceed 100 %, so its noise is shown instead.
      const noise = profile.isComparison ? measure.noise(sums, 0) : null;
      const beside = profile.isComparison
        ? (noise === null ? '' : `±${measure.label(noise)}`)
        : percentOf(sums.value[0], measure.cum.value[this.name]);
      return element('tr', { class: classesOf({ noise: measure.isNoise(sums, 0) }) },
        element('td', {}, measure.shown(sums, 0)),
        element('td', { class: 'share' }, beside),
        element('td', {}, name < 0 ? 'the program’s start' : element('div', { class: 'cell' }, functionButton(profile, name, this.onChoose))));
    });
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
    const words = this.text.get(file) ?? new Map();
    const sampled = Array.from(lines.keys()).filter((line) => line > 0).sort((a, b) => a - b);
    const shown = new Set(sampled);
    const [first, last] = [sampled[0] ?? 0, sampled[sampled.length - 1] ?? 0];
    const from = start > 0 && start <= first && first - start < 200 ? start - 1 : first - 6;
    for (const line of words.keys()) if (line >= from && line <= last + 6) shown.add(line);
    const most = Math.max(...sampled.map((line) => Math.abs(lines.get(line).cum.value[0])), 0);
    let before = null;
    const rows = [];
    for (const line of Array.from(shown).sort((a, b) => a - b)) {
      if (before !== null && line > before + 1) {
        const gap = element('td', { class: 'number' }, '⋯');
        rows.push(element('tr', {}, element('td'), element('td'), gap, element('td')));
      }
      before = line;
      const sums = lines.get(line);
      // A dot means that no sample has this line.
      const text = (one) => (one.isNothing(0) ? '.' : measure.shown(one, 0));
      const isNoise = sums !== undefined && measure.isNoise(sums.cum, 0);
      const row = element('tr', { class: classesOf({ hot: sums !== undefined && !isNoise, noise: isNoise }) },
        element('td', {}, sums === undefined ? '' : text(sums.flat)),
        element('td', {}, sums === undefined ? '' : text(sums.cum)),
        element('td', { class: 'number' }, String(line)),
        element('td', {}, words.get(line) ?? ''));
      if (sums !== undefined && most > 0) {
        row.style.setProperty('--share', `${((100 * Math.abs(sums.cum.value[0])) / most).toFixed(1)}%`);
      }
      rows.push(row);
    }
    const path = this.profile.data.files[file];
    const caption = words.size > 0 ? path : `${path} (its text is not in this page)`;
    const heads = ['flat', 'cum', 'line', 'source'].map((head) => element('th', { scope: 'col' }, head));
    const table = element('table', {}, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
    const scroller = element('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': `Lines of ${path}` }, table);
    return element('figure', {}, element('figcaption', {}, caption), scroller);
  }
}

