
// The flame graph: boxes on a canvas that is as large as what is seen of it, so that depth costs nothing; and one element over
// the box that the keyboard is at, for the ring that shows it and for screen readers.

/** Narrower boxes are not drawn, in CSS pixels. */
const NARROWEST = 0.5;
/** Boxes that are narrower than this have no text. */
const NARROWEST_TEXT = 30;
/** No function; -1 is that of the root. */
const NONE = -2;

class FlameGraph {
  /**
   * @param {Profile} profile
   * @param {{onZoom: function(number): void, onHover: function(number, ?PointerEvent): void, onHeight: function(boolean): void}}
   *   events with nodes of the profile's tree of functions, -1 for none; and whether rows are more than there is room for
   */
  constructor(profile, events) {
    this.profile = profile;
    this.events = events;
    this.box = document.getElementById('flame');
    this.space = document.getElementById('flame-space');
    this.canvas = document.getElementById('flame-canvas');
    this.ring = document.getElementById('flame-focus');
    this.pen = this.canvas.getContext('2d');
    this.isUpward = false;
    this.zoomed = 0;
    this.hovered = -1;
    this.current = -1;
    this.marked = null;
    this.chosen = NONE;
    this.colours = new Colours(profile);
    this.rowHeight = matchMedia('(pointer: coarse)').matches ? 24 : 19;

    new ResizeObserver(() => this.layOut()).observe(this.box);
    this.box.addEventListener('scroll', () => this.draw(), { passive: true });
    this.box.addEventListener('click', (event) => {
      const node = this.nodeAt(event);
      if (node < 0) return;
      this.zoom(node);
      this.hover(this.nodeAt(event), event);
    });
    this.box.addEventListener('pointermove', (event) => this.hover(this.nodeAt(event), event));
    this.box.addEventListener('pointerleave', () => this.hover(-1, null));
    this.box.addEventListener('focus', () => this.focusOn(this.current >= 0 ? this.current : this.zoomed));
    this.box.addEventListener('blur', () => {
      this.ring.hidden = true;
      this.events.onHover(-1, null);
    });
    this.box.addEventListener('keydown', (event) => this.key(event));
  }

  /** Shows other sums. */
  show(measure) {
    this.measure = measure;
    if (measure.size[this.zoomed] === 0) this.zoomed = 0;
    const positive = new Int32Array(this.profile.flame.length + 1);
    for (let node = 0; node < this.profile.flame.length; node++) {
      positive[node + 1] = positive[node] + (measure.size[node] > 0 ? 1 : 0);
    }
    // How many boxes stand before each node.
    this.before = positive;
    this.layOut();
  }

  /** Makes a node as wide as the whole, with its callers dimmed. */
  zoom(node) {
    this.zoomed = node;
    this.current = node;
    this.layOut();
    this.scrollTo(node);
    this.events.onZoom(node);
  }

  setUpward(isUpward) {
    this.isUpward = isUpward;
    this.layOut();
    this.scrollToFork();
  }

  /** Makes room for all rows, or for as many as leave the table in view. */
  setWhole(isWhole) {
    this.box.classList.toggle('whole', isWhole);
    this.least = 0;
    this.layOut();
    if (!isWhole) this.scrollToFork();
  }

  /**
   * Shows the rows from where the chains part, and two of those that all have in common, if all from the root on would fill half
   * of the view: deep stacks begin with dozens of rows that are as wide as the graph.
   */
  scrollToFork() {
    const { flame } = this.profile;
    const { size } = this.measure;
    let trunk = 0;
    for (let node = 1; node < flame.end[trunk]; ) {
      if (size[node] >= 0.9 * size[0]) trunk = node++;
      else node = flame.end[node];
    }
    const isDeep = flame.depth[trunk] * this.rowHeight > this.box.clientHeight / 2;
    const hidden = isDeep ? (flame.depth[trunk] - 1) * this.rowHeight : 0;
    this.box.scrollTop = this.isUpward ? this.height - hidden - this.box.clientHeight : hidden;
    this.draw();
  }

  /** Marks functions, an array with a number other than 0 for each; null for none. */
  mark(functions) {
    this.marked = functions;
    this.draw();
  }

  choose(name) {
    this.chosen = name;
    this.draw();
  }

  /** Places all boxes that are wide enough, by rows. */
  layOut() {
    if (this.measure === undefined) return;
    const { flame } = this.profile;
    const { size } = this.measure;
    const atRoot = this.isUpward && this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - 1;
    this.width = this.box.clientWidth;
    this.rows = [];
    const put = (node, x, width) => {
      const row = (this.rows[flame.depth[node]] ??= { nodes: [], xs: [], widths: [] });
      row.nodes.push(node);
      row.xs.push(x);
      row.widths.push(width);
    };
    for (let node = this.zoomed; node >= 0; node = flame.parent[node]) put(node, 0, this.width);
    const scale = size[this.zoomed] > 0 ? this.width / size[this.zoomed] : 0;
    // Where the next child of each open node begins.
    const next = [0];
    const first = flame.depth[this.zoomed];
    this.tooNarrow = 0;
    for (let node = this.zoomed + 1; node < flame.end[this.zoomed]; ) {
      const depth = flame.depth[node] - first;
      const width = size[node] * scale;
      const x = next[depth - 1];
      next[depth - 1] += width;
      if (width < NARROWEST) {
        this.tooNarrow += this.before[flame.end[node]] - this.before[node];
        node = flame.end[node];
        continue;
      }
      put(node, x, width);
      next[depth] = x;
      node++;
    }
    this.height = this.rows.length * this.rowHeight;
    // What is below must not move when a part is shown, so the box stays as high as for the whole.
    const most = parseFloat(getComputedStyle(this.box).maxHeight) - 2 || Infinity;
    if (this.zoomed === 0) this.least = Math.min(this.height, most);
    else this.height = Math.max(this.height, this.least ?? 0);
    this.space.style.height = `${this.height}px`;
    this.events.onHeight(this.height > most || this.box.classList.contains('whole'));
    if (atRoot) this.box.scrollTop = this.box.scrollHeight;
    this.draw();
    this.placeRing();
    document.getElementById('flame-note').textContent =
      this.tooNarrow === 0 ? '' : `${this.tooNarrow} ${this.tooNarrow === 1 ? 'frame is' : 'frames are'} too narrow to show `
        + '(less than half a pixel); zoom in to see them.';
  }

  draw() {
    if (this.rows === undefined) return;
    const { pen, canvas, box } = this;
    const height = Math.min(box.clientHeight, Math.max(this.height, 1));
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.height = `${height}px`;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, height);
    pen.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
    pen.textBaseline = 'middle';
    this.letter = pen.measureText('0').width;
    this.palette = this.colours.palette();
    const top = box.scrollTop;
    for (let depth = 0; depth < this.rows.length; depth++) {
      const y = this.yOf(depth) - top;
      if (y + this.rowHeight < 0 || y > height) continue;
      this.drawRow(depth, y);
    }
  }

  drawRow(depth, y) {
    const { pen, palette } = this;
    const { nodes, xs, widths } = this.rows[depth];
    const isCaller = depth < this.profile.flame.depth[this.zoomed];
    for (let place = 0; place < nodes.length; place++) {
      const node = nodes[place];
      const name = this.profile.flameFunction[node];
      const [fill, ink] = this.colourOf(node, name, isCaller, palette);
      const width = widths[place];
      pen.fillStyle = fill;
      // A gap of a pixel between boxes, unless that would be all of them.
      pen.fillRect(xs[place], y, Math.max(width - (width > 3 ? 1 : width > 1 ? 0.4 : 0), NARROWEST), this.rowHeight - 1);
      if (name === this.chosen && width > 3) {
        pen.fillStyle = palette.text;
        pen.fillRect(xs[place], y + this.rowHeight - 3, width - 1, 2);
      }
      if (node === this.hovered) {
        pen.strokeStyle = palette.text;
        pen.lineWidth = 1.5;
        pen.strokeRect(xs[place] + 0.75, y + 0.75, Math.max(width - 2.5, 0.5), this.rowHeight - 2.5);
      }
      if (width >= NARROWEST_TEXT) {
        const room = Math.floor((width - 8) / this.letter);
        pen.fillStyle = ink;
        pen.fillText(fitted(this.nameOf(node), room), xs[place] + 4, y + this.rowHeight / 2, width - 6);
      }
    }
  }

  colourOf(node, name, isCaller, palette) {
    if (this.marked !== null && name >= 0 && this.marked[name]) return [palette.match, palette.matchText];
    if (isCaller || name < 0 || this.marked !== null) return [palette.dim, palette.dimText];
    const { measure } = this;
    if (measure.isNoise(measure.whole, node)) return [palette.dim, palette.dimText];
    if (this.profile.isComparison || measure.hasNegative) return this.colours.change(measure.change(node), palette);
    return [this.colours.of(name), palette.ink];
  }

  nameOf(node) {
    return node === 0 ? 'all' : this.profile.names[this.profile.flameFunction[node]];
  }

  yOf(depth) {
    return this.isUpward ? this.height - (depth + 1) * this.rowHeight : depth * this.rowHeight;
  }

  /** The node under the pointer; -1 for none. */
  nodeAt(event) {
    const area = this.space.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = this.isUpward ? area.bottom - event.clientY : event.clientY - area.top;
    const row = this.rows[Math.floor(y / this.rowHeight)];
    if (row === undefined) return -1;
    let place = 0;
    for (let step = row.xs.length; step > 0; step >>= 1) {
      while (place + step < row.xs.length && row.xs[place + step] <= x) place += step;
    }
    // What is less than a pixel wide can still be met.
    return x >= row.xs[place] && x < row.xs[place] + Math.max(row.widths[place], 1) ? row.nodes[place] : -1;
  }

  hover(node, event) {
    if (node !== this.hovered) {
      this.hovered = node;
      this.draw();
    }
    this.events.onHover(node, event);
  }

  /** Where a node is drawn: its row and place there; null where it is not. */
  placeOf(node) {
    const row = this.rows[this.profile.flame.depth[node]];
    const place = row === undefined ? -1 : row.nodes.indexOf(node);
    return place < 0 ? null : { row, place };
  }

  focusOn(node) {
    this.current = this.placeOf(node) === null ? this.zoomed : node;
    this.scrollTo(this.current);
    this.placeRing();
    this.events.onHover(this.current, null);
  }

  /** Puts the ring around the current node, and says there what it is. */
  placeRing() {
    const found = this.current < 0 ? null : this.placeOf(this.current);
    this.ring.hidden = found === null || !this.box.matches(':focus-visible');
    if (this.ring.hidden) {
      this.box.removeAttribute('aria-activedescendant');
      return;
    }
    const { row, place } = found;
    const depth = this.profile.flame.depth[this.current];
    const { style } = this.ring;
    style.left = `${row.xs[place]}px`;
    style.width = `${Math.max(row.widths[place] - 1, 3)}px`;
    style.top = `${this.yOf(depth)}px`;
    style.height = `${this.rowHeight - 1}px`;
    this.ring.setAttribute('aria-level', depth + 1);
    this.ring.setAttribute('aria-posinset', place + 1);
    this.ring.setAttribute('aria-setsize', row.nodes.length);
    this.ring.setAttribute('aria-label', this.textOf(this.current));
    this.box.setAttribute('aria-activedescendant', this.ring.id);
  }

  /** A node in words. */
  textOf(node) {
    const { measure } = this;
    const parts = [this.nameOf(node), measure.words(measure.whole, node)];
    if (node > 0) parts.push(`${measure.shown(measure.self, node)} of its own`);
    return parts.join('; ');
  }

  scrollTo(node) {
    const y = this.yOf(this.profile.flame.depth[node]);
    const { scrollTop, clientHeight } = this.box;
    if (y < scrollTop) this.box.scrollTop = y - this.rowHeight;
    else if (y + this.rowHeight > scrollTop + clientHeight) this.box.scrollTop = y + 2 * this.rowHeight - clientHeight;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { flame } = this.profile;
    const inward = this.isUpward ? 'ArrowUp' : 'ArrowDown';
    const outward = this.isUpward ? 'ArrowDown' : 'ArrowUp';
    const node = this.current < 0 ? this.zoomed : this.current;
    if (event.key === 'Enter' || event.key === ' ') this.zoom(node);
    else if (event.key === 'Escape' || event.key === 'Home') this.zoom(0);
    else if (event.key === 'Backspace') this.zoom(Math.max(flame.parent[this.zoomed], 0));
    else if (event.key === outward) this.focusOn(Math.max(flame.parent[node], 0));
    else if (event.key === inward) this.focusOn(this.widestBelow(node));
    else if (event.key === 'ArrowLeft') this.focusOn(this.beside(node, -1));
    else if (event.key === 'ArrowRight') this.focusOn(this.beside(node, 1));
    else return;
    event.preventDefault();
    this.placeRing();
  }

  widestBelow(node) {
    const { flame } = this.profile;
    const row = this.rows[flame.depth[node] + 1];
    if (row === undefined) return node;
    let [widest, width] = [node, 0];
    row.nodes.forEach((child, place) => {
      if (flame.parent[child] === node && row.widths[place] > width) [widest, width] = [child, row.widths[place]];
    });
    return widest;
  }

  beside(node, step) {
    const found = this.placeOf(node);
    return found?.row.nodes[found.place + step] ?? node;
  }
}

/** Colours of boxes: a hue for each crate, namespace, package or object, which depends on nothing but its name. */
class Colours {
  constructor(profile) {
    this.profile = profile;
    this.boxes = [];
  }

  /** The colours of the theme. */
  palette() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const theme = value('flame-lightness');
    if (theme !== this.theme) {
      this.theme = theme;
      this.saturation = parseFloat(value('flame-saturation'));
      this.lightness = parseFloat(theme);
      this.boxes = [];
      this.values = {
        ink: value('flame-text'),
        text: value('text'),
        match: value('flame-match'),
        matchText: value('flame-match-text'),
        dim: value('flame-dim'),
        dimText: value('flame-dim-text'),
      };
    }
    return this.values;
  }

  of(name) {
    return (this.boxes[name] ??= this.make(name));
  }

  make(name) {
    const text = this.profile.names[name];
    const { data } = this.profile;
    const hue = HUES[hash(packageOf(text, data.objects[data.object[name]])) % HUES.length];
    const shade = hash(text);
    const lightness = this.lightness + (shade % 5) - 2;
    return `hsl(${hue + ((shade >>> 4) % 9) - 4} ${this.saturation}% ${lightness}%)`;
  }

  /** Red for more, blue for less, from -1 to 1; what is the same has no colour. The light theme has the colours of the SVG. */
  change(share, palette) {
    if (share === 0) return [palette.dim, palette.dimText];
    const strength = Math.sqrt(Math.min(Math.abs(share), 1));
    if (this.lightness < 50) return [`hsl(${share > 0 ? 4 : 222} ${25 + 40 * strength}% ${27 + 13 * strength}%)`, palette.ink];
    const faded = Math.floor(245 - 150 * strength);
    return [share > 0 ? `rgb(255 ${faded} ${faded})` : `rgb(${faded} ${faded} 255)`, palette.ink];
  }
}

/** Warm ones are more than others: a flame graph should look like one. */
const HUES = [14, 28, 40, 50, 4, 34, 22, 75, 150, 190, 215, 265, 330];

/** FNV-1a, in 32 bits. */
function hash(text) {
  let value = 0x811c9dc5;
  for (let place = 0; place < text.length; place++) {
    value ^= text.charCodeAt(place);
    value = Math.imul(value, 0x01000193) >>> 0;
  }
  return value;
}

/** What a function belongs to: its crate or namespace, its Go package, or the object it is in. */
function packageOf(name, object) {
  const path = /^[<&*([\s]*(?:(?:dyn|impl|mut|const) )*([A-Za-z_][\w$]*)::/.exec(name);
  if (path !== null) return path[1];
  // Go: a path, and a dot after its last slash. Suffixes of gcc and clang come after a dot, too.
  const place = name.split(/[([ ]/, 1)[0];
  const last = place.lastIndexOf('/') + 1;
  const dot = place.indexOf('.', last);
  const isPackage = dot > last && /^[\w$-]+$/.test(place.slice(last, dot));
  const isSuffix = /^(part|cold|constprop|isra|lto_priv|llvm|localalias)/.test(place.slice(dot + 1));
  return isPackage && !isSuffix ? name.slice(0, dot) : object;
}
