'use strict';

// Zooms, searches, and fits texts into the picture that this script stands in.
const picture = document.currentScript.ownerSVGElement;
const byId = (id) => picture.getElementById(id);
const frames = byId('frames');
const margin = 10;
const isFluid = picture.classList.contains('fluid');

// In the order of the document, in which callers stand before those that they call. Places are percentages of the whole.
const boxes = Array.from(frames.children, (element) => {
  const [title, rect, text] = element.children;
  return {
    element,
    rect,
    text,
    title: title.textContent,
    name: title.textContent.replace(/ \([^(]*\)$/, ''),
    begin: parseFloat(rect.getAttribute('x')),
    width: parseFloat(rect.getAttribute('width')),
    row: parseFloat(rect.getAttribute('y')),
  };
});
const boxOfElement = new Map(boxes.map((box) => [box.element, box]));
const boxOf = (target) => boxOfElement.get(target.closest('#frames > g'));
// How far from the root's row: 16 pixels each.
const depth = (box) => Math.abs(box.row - boxes[0].row);

let zoomed = boxes[0];
let letter;

// Draws the boxes of the one that is zoomed into, and those of its callers, which are as wide as the picture.
function draw() {
  letter ??= byId('search').getComputedTextLength() / byId('search').textContent.length || 7.25;
  const whole = parseFloat(frames.getAttribute('width'));
  const least = 1e-6;
  const end = zoomed.begin + zoomed.width;
  for (const box of boxes) {
    const isCaller = depth(box) < depth(zoomed);
    const isShown = isCaller
      ? box.begin <= zoomed.begin + least && box.begin + box.width >= end - least
      : box.begin >= zoomed.begin - least && box.begin + box.width <= end + least;
    box.element.classList.toggle('hidden', !isShown);
    box.element.classList.toggle('caller', isCaller);
    if (!isShown) continue;
    const begin = isCaller ? 0 : ((box.begin - zoomed.begin) * 100) / zoomed.width;
    const width = isCaller ? 100 : (box.width * 100) / zoomed.width;
    box.rect.setAttribute('x', `${begin}%`);
    box.rect.setAttribute('width', `${width}%`);
    box.text.setAttribute('x', `${begin}%`);
    box.text.textContent = fitted(box.name, Math.floor(((width / 100) * whole - 5) / letter));
  }
  byId('unzoom').classList.toggle('hidden', zoomed === boxes[0]);
}

function zoom(box) {
  zoomed = box;
  draw();
}

// Marks the boxes that match a regular expression, and writes their share of the picture.
let searched = '';
function search(pattern) {
  searched = pattern ?? '';
  let expression;
  try {
    expression = searched && new RegExp(searched);
  } catch (error) {
    byId('matched').textContent = error.message;
    return;
  }
  let sum = 0;
  // A match inside another one is part of it.
  let outer;
  for (const box of boxes) {
    const isMatch = expression && expression.test(box.name);
    box.element.classList.toggle('match', Boolean(isMatch));
    if (outer && depth(box) <= depth(outer)) outer = undefined;
    if (isMatch && !outer) {
      outer = box;
      sum += box.width;
    }
  }
  byId('matched').textContent = expression ? `Matched: ${sum.toFixed(2)}% ✕` : ' ';
}

const ask = () => {
  const pattern = prompt('Search for a regular expression', searched);
  if (pattern !== null) search(pattern);
};

frames.addEventListener('click', (event) => {
  const box = boxOf(event.target);
  if (box) zoom(box);
});
frames.addEventListener('mouseover', (event) => {
  const box = boxOf(event.target);
  const room = Math.floor(parseFloat(frames.getAttribute('width')) / letter) - 20;
  if (!box) return;
  const value = box.title.slice(box.name.length);
  byId('details').textContent = fitted(box.name, Math.max(room - value.length, 3)) + value;
});
frames.addEventListener('mouseout', () => {
  byId('details').textContent = ' ';
});
byId('unzoom').addEventListener('click', () => zoom(boxes[0]));
byId('search').addEventListener('click', ask);
byId('matched').addEventListener('click', () => search(''));
addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    search('');
    zoom(boxes[0]);
  } else if (event.key === '/' || (event.key === 'f' && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    ask();
  }
});

let titleText;
let subtitleText;

// Cuts the title at its end where the window is narrower.
function shortenTitle(room) {
  // Words in the corners: what zooms out, and what searches.
  room -= 2 * 76;
  const title = byId('title');
  titleText ??= title.textContent;
  title.textContent = titleText;
  if (title.getComputedTextLength() <= room) return;
  title.textContent = `${titleText}…`;
  const ellipsis = title.getSubStringLength(titleText.length, 1);
  let length = titleText.length;
  while (length > 1 && title.getSubStringLength(0, length) + ellipsis > room) length--;
  title.textContent = `${titleText.slice(0, length)}…`;
}

// Writes the line below the title in as many lines as the width of the window asks for, and moves all below it up or down.
function wrapSubtitle(room) {
  const subtitle = byId('subtitle');
  const before = subtitle.children.length;
  // A run of spaces is drawn, and counted, as one.
  subtitleText ??= Array.from(subtitle.children, (line) => line.textContent).join(' ').replace(/\s+/g, ' ');
  // All is measured in one line, so that the browser lays it out once. A line is where it begins and ends.
  subtitle.textContent = subtitleText;
  const lines = [];
  for (const word of subtitleText.matchAll(/\S+/g)) {
    const end = word.index + word[0].length;
    const last = lines.at(-1);
    if (last && subtitle.getSubStringLength(last[0], end - last[0]) <= room) last[1] = end;
    else lines.push([word.index, end]);
  }
  const written = lines.slice(0, 12).map(([start, end]) => subtitleText.slice(start, end));
  if (written.length < lines.length) written[written.length - 1] += ' …';
  subtitle.textContent = '';
  written.forEach((text, place) => {
    const line = document.createElementNS(subtitle.namespaceURI, 'tspan');
    line.setAttribute('x', '50%');
    line.setAttribute('dy', place ? 14 : 0);
    line.textContent = text;
    subtitle.append(line);
  });
  const down = 14 * (written.length - before);
  const lower = (element, name) => element.setAttribute(name, parseFloat(element.getAttribute(name)) + down);
  lower(picture, 'height');
  lower(byId('background'), 'height');
  for (const id of ['details', 'matched', 'frames']) lower(byId(id), 'y');
}

let fittedWidth;

// Makes the picture as wide as the window.
function fit() {
  const width = picture.width.baseVal.value;
  if (width === fittedWidth) return;
  fittedWidth = width;
  const room = Math.max(width - 2 * margin, 1);
  frames.setAttribute('width', room);
  shortenTitle(room);
  wrapSubtitle(room);
  draw();
}

if (isFluid) {
  picture.removeAttribute('viewBox');
  picture.setAttribute('width', '100%');
  addEventListener('resize', fit);
  fit();
} else {
  draw();
}
// The widest boxes are first to be seen.
if (picture.dataset.direction === 'up') scrollTo(0, document.documentElement.scrollHeight);
