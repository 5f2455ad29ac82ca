
// What happens when something is chosen, typed or clicked.

function start() {
  const data = JSON.parse(document.getElementById('data').textContent);
  const profile = new Profile(data);
  const state = { type: data.chosen, thread: -1, pattern: '' };
  const byId = (id) => document.getElementById(id);

  const choose = (name, isSilent = false) => {
    for (const view of [flame, top, details]) view.choose(name);
    if (!isSilent) byId('function-heading').focus({ preventScroll: isInView(byId('function')) });
  };
  const flame = new FlameGraph(profile, {
    onHover: (node, event) => showDetails(flame, node, event),
    onHeight: (isHigh) => (byId('taller').hidden = !isHigh),
    onZoom: (node) => {
      showPath(profile, flame);
      byId('reset').disabled = node === 0;
      if (node > 0) choose(profile.flameFunction[node], true);
    },
  });
  const top = new TopTable(profile, choose);
  const details = new FunctionView(profile, choose);

  const measure = () => {
    const sums = profile.measure(state.type, state.thread);
    for (const view of [flame, top, details]) view.show(sums);
    showPath(profile, flame);
    byId('reset').disabled = flame.zoomed === 0;
    search();
  };
  const search = () => {
    const { marked, error } = matching(profile.names, state.pattern);
    const sums = flame.measure;
    flame.mark(marked);
    top.mark(marked);
    byId('search').setAttribute('aria-invalid', error !== null);
    byId('matches').className = error === null ? '' : 'error';
    if (error !== null) byId('matches').textContent = error;
    else if (marked === null) byId('matches').textContent = '';
    else {
      const count = marked.reduce((all, one) => all + one, 0);
      byId('matches').textContent = `${count} ${count === 1 ? 'function' : 'functions'}, ${sums.wordsOfMarked(marked)}`;
    }
  };

  document.body.classList.toggle('comparison', profile.isComparison);
  byId('title').textContent = data.title;
  showFacts(profile, data);
  fillChoices(data, state, profile);
  byId('type').addEventListener('change', (event) => {
    state.type = Number(event.target.value);
    measure();
  });
  byId('thread').addEventListener('change', (event) => {
    state.thread = Number(event.target.value);
    measure();
  });
  byId('search').addEventListener('input', (event) => {
    state.pattern = event.target.value;
    search();
  });
  byId('search').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.target.value = state.pattern = '';
    search();
  });
  byId('reset').addEventListener('click', () => {
    flame.zoom(0);
    byId('flame').focus({ preventScroll: true });
  });
  byId('direction').addEventListener('click', (event) => {
    flame.setUpward(!flame.isUpward);
    event.target.setAttribute('aria-pressed', flame.isUpward);
  });
  byId('taller').addEventListener('click', (event) => {
    const isWhole = event.target.getAttribute('aria-pressed') !== 'true';
    flame.setWhole(isWhole);
    event.target.setAttribute('aria-pressed', isWhole);
  });
  byId('copy').addEventListener('click', () => {
    getSelection().selectAllChildren(byId('function-heading'));
    document.execCommand('copy');
  });
  document.addEventListener('copy', (event) => {
    const text = copied(profile, getSelection());
    if (text === null) return;
    event.clipboardData.setData('text/plain', text);
    event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    byId('search').focus();
  });
  startTheme(() => flame.draw());
  printInLight(flame);

  measure();
  flame.scrollToFork();
  // Something to look at below, though nobody chose it: the hottest function.
  if (top.names.length > 0) details.choose(top.names[0]);
}

/** The functions that a pattern matches; none are marked where it is empty. Upper case in it makes case count. */
function matching(names, pattern) {
  if (pattern === '') return { marked: null, error: null };
  try {
    const expression = new RegExp(pattern, /[A-Z]/.test(pattern) ? 'u' : 'iu');
    return { marked: Uint8Array.from(names, (name) => (expression.test(name) ? 1 : 0)), error: null };
  } catch (error) {
    return { marked: null, error: String(error.message).replace(/^Invalid regular expression: /, '') };
  }
}

function isInView(section) {
  const { top } = section.getBoundingClientRect();
  return top >= 0 && top < window.innerHeight * 0.8;
}

/** What is known of the profile as a whole. */
function showFacts(profile, data) {
  const add = (name, value) => {
    document.getElementById('facts').append(element('div', {}, element('dt', {}, name), element('dd', {}, value)));
  };
  const shown = data.types[data.chosen];
  const count = data.types.find(({ unit }) => unit === 'count');
  if (data.began !== 0) add('Date', `${new Date(data.began).toISOString().slice(0, 19).replace('T', ' ')} UTC`);
  // In a comparison the duration is the sum of both profiles, which means nothing.
  if (data.duration > 0 && !profile.isComparison) add('Duration', labelOf(data.duration, 'nanoseconds'));
  const isTime = data.duration > 0 && shown.unit === 'nanoseconds';
  if (profile.isComparison) {
    const measure = profile.measure(data.chosen, -1);
    add(`Total ${shown.kind}`, measure.words(measure.whole, 0));
  } else {
    if (count !== undefined && count !== shown) add('Samples', labelOf(count.total, count.unit));
    const share = isTime ? ` (${percentOf(shown.total, data.duration)} of the duration)` : '';
    add(`Total ${shown.kind}`, labelOf(shown.total, shown.unit) + share);
  }
  if (data.threads.length > 1) add('Threads', String(data.threads.length - 1));
  if (data.filters.length > 0) {
    document.getElementById('filters').hidden = false;
    document.getElementById('filters').textContent = `Filters: ${data.filters.join(', ')}`;
  }
  if (data.comments.length > 0) {
    const comments = document.getElementById('comments');
    comments.hidden = false;
    comments.open = data.comments.length <= 3;
    comments.classList.toggle('many', data.comments.length > 3);
    comments.querySelector('ul').append(...data.comments.map((comment) => element('li', {}, comment)));
  }
  document.getElementById('notes').append(...data.source_notes.map((note) => element('li', {}, note)));
}

function fillChoices(data, state, profile) {
  const types = data.types.map(({ kind, unit }, place) =>
    element('option', { value: place, selected: place === state.type }, unit === 'count' ? kind : `${kind} (${unit})`));
  document.getElementById('type').append(...types);
  document.getElementById('type-choice').hidden = types.length < 2;
  if (data.threads.length === 0) return;
  // The busiest first; what has no thread last.
  const sums = data.threads.map(() => 0);
  profile.sampleThread.forEach((thread, sample) => (sums[thread] += Math.abs(profile.sampleValues[state.type][sample])));
  const total = sums.reduce((all, one) => all + one, 0);
  const order = Array.from(sums.keys()).filter((thread) => sums[thread] !== 0);
  order.sort((a, b) => (a === 0) - (b === 0) || sums[b] - sums[a] || a - b);
  const threads = order.map((thread) =>
    element('option', { value: thread }, `${data.threads[thread]} · ${percentOf(sums[thread], total)}`));
  document.getElementById('thread').append(element('option', { value: -1 }, 'all threads'), ...threads);
  document.getElementById('thread-choice').hidden = false;
}

/** Shows the callers of the zoomed frame as buttons: the outermost, and as many of the innermost as there is room for. */
function showPath(profile, flame) {
  const path = document.getElementById('path');
  const nodes = [];
  for (let node = flame.zoomed; node >= 0; node = profile.flame.parent[node]) nodes.unshift(node);
  const crumb = (node) => {
    const isLast = node === flame.zoomed;
    const attributes = { type: 'button', title: flame.nameOf(node), 'aria-current': isLast ? 'true' : undefined };
    return element('button', { ...attributes, onclick: () => flame.zoom(node) }, fitted(flame.nameOf(node), 28));
  };
  const show = (shown) => {
    path.replaceChildren(...shown.flatMap((part, place) => {
      const made = part === '…' ? element('span', {}, part) : crumb(part);
      return place === 0 ? [made] : [element('span', { 'aria-hidden': 'true' }, '›'), made];
    }));
    return path.scrollWidth <= path.clientWidth;
  };
  path.classList.remove('tight');
  // A long path is shortened in the middle. The graph has the boxes of all callers.
  if (nodes.length <= 8 && show(nodes)) return;
  for (let inner = Math.min(nodes.length - 2, 6); inner > 0; inner--) {
    if (show([nodes[0], '…', ...nodes.slice(-inner)])) return;
  }
  path.classList.add('tight');
}

/** What is known of a box: below the graph, and beside the pointer. */
function showDetails(flame, node, event) {
  const tip = document.getElementById('tip');
  const line = document.getElementById('flame-details');
  tip.hidden = node < 0 || event === null;
  line.textContent = node < 0 ? '' : flame.textOf(node);
  if (tip.hidden) return;
  const { measure, profile } = flame;
  const name = profile.flameFunction[node];
  const lines = [element('strong', {}, flame.nameOf(node))];
  if (name >= 0 && profile.objectOf(name) !== '') lines.push(element('span', {}, profile.objectOf(name)));
  lines.push(measure.words(measure.whole, node));
  if (flame.zoomed > 0 && !profile.isComparison) {
    const share = percentOf(measure.whole.value[node], measure.whole.value[flame.zoomed]);
    lines.push(element('span', {}, `${share} of what is zoomed into`));
  }
  if (node > 0) lines.push(element('span', {}, `${measure.shown(measure.self, node)} of its own`));
  tip.replaceChildren(...lines);
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 14 + width < window.innerWidth;
  const under = event.clientY + 18 + height < window.innerHeight;
  tip.style.left = `${Math.max(right ? event.clientX + 14 : Math.min(event.clientX - 14, window.innerWidth - 8) - width, 4)}px`;
  tip.style.top = `${Math.max(under ? event.clientY + 18 : event.clientY - 12 - height, 4)}px`;
}

/** On paper the graph has all its rows, and the colours of the light theme. */
function printInLight(flame) {
  const root = document.documentElement;
  const taller = document.getElementById('taller');
  let before = null;
  window.addEventListener('beforeprint', () => {
    before ??= { theme: root.dataset.theme, top: flame.box.scrollTop };
    root.dataset.theme = 'light';
    flame.setWhole(true);
  });
  window.addEventListener('afterprint', () => {
    if (before === null) return;
    if (before.theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = before.theme;
    flame.setWhole(taller.getAttribute('aria-pressed') === 'true');
    flame.box.scrollTop = before.top;
    before = null;
  });
}

/** The switch of the theme: as the system has it, until it is used. */
function startTheme(redraw) {
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const update = () => {
    button.textContent = isDark() ? 'Light theme' : 'Dark theme';
    redraw();
  };
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    update();
  });
  system.addEventListener('change', update);
  update();
}

try {
  start();
} catch (error) {
  const failure = document.getElementById('failure');
  failure.textContent = `This page cannot be shown: ${error.message}`;
  failure.hidden = false;
  throw error;
}
