
// Writes names into boxes, shortened where they do not fit: for the library that draws, and in its terms.
function update_text_for_elements(elements) {
  if (fluiddrawing) wrap_subtitle();
  const letter = known_font_width > 0 ? known_font_width : fontsize * fontwidth;
  const whole = parseFloat(frames.attributes.width.value);
  const texts = Array.from(elements, (box) => {
    const { x, width } = box.querySelector('rect').attributes;
    const name = box.querySelector('title').textContent.replace(/ \([^(]*\)$/, '');
    const room = Math.floor(((parseFloat(width.value) / 100) * whole - 5) / letter);
    return [`${(parseFloat(x.value) + 300 / whole).toFixed(4)}%`, fitted(name, room)];
  });
  // All is read before anything is written, so that the browser lays the picture out once.
  Array.from(elements).forEach((box, place) => {
    const text = box.querySelector('text');
    text.setAttribute('x', texts[place][0]);
    text.textContent = texts[place][1];
  });
}

let title_text;
let subtitle_text;
let subtitle_room;

// Cuts the title at its end where the window is narrower.
function shorten_title(room) {
  // Words in the corners: what zooms out, and what searches.
  room -= 2 * 76;
  const title = document.getElementById('title');
  title_text ??= title.textContent;
  title.textContent = title_text;
  if (title.getComputedTextLength() <= room) return;
  title.textContent = `${title_text}…`;
  const ellipsis = title.getSubStringLength(title_text.length, 1);
  let length = title_text.length;
  while (length > 1 && title.getSubStringLength(0, length) + ellipsis > room) length--;
  title.textContent = `${title_text.slice(0, length)}…`;
}

// Writes the line below the title in as many lines as the width of the window asks for, and moves all below it up or down.
function wrap_subtitle() {
  const room = svg.width.baseVal.value - 2 * xpad;
  if (room === subtitle_room) return;
  subtitle_room = room;
  shorten_title(room);
  const subtitle = document.getElementById('subtitle');
  const before = Math.max(subtitle.children.length, 1);
  // A run of spaces is drawn, and counted, as one.
  subtitle_text ??= Array.from(subtitle.childNodes, (line) => line.textContent).join(' ').replace(/\s+/g, ' ');
  // All is measured in one line, so that the browser lays it out once. A line is where it begins and ends.
  subtitle.textContent = subtitle_text;
  const lines = [];
  for (const word of subtitle_text.matchAll(/\S+/g)) {
    const end = word.index + word[0].length;
    const last = lines.at(-1);
    if (last && subtitle.getSubStringLength(last[0], end - last[0]) <= room) last[1] = end;
    else lines.push([word.index, end]);
  }
  const written = lines.slice(0, 12).map(([start, end]) => subtitle_text.slice(start, end));
  if (written.length < lines.length) written[written.length - 1] += ' …';
  subtitle.textContent = '';
  written.forEach((text, place) => {
    const line = document.createElementNS(subtitle.namespaceURI, 'tspan');
    line.setAttribute('x', subtitle.getAttribute('x'));
    line.setAttribute('dy', place ? 14 : 0);
    line.textContent = text;
    subtitle.append(line);
  });
  const down = 14 * (written.length - before);
  const lower = (element, name) =>
    element.setAttribute(name, parseFloat(element.getAttribute(name) ?? 0) + down);
  lower(svg, 'height');
  lower(svg.querySelector('rect'), 'height');
  lower(details.parentNode, 'y');
  lower(matchedtxt, 'y');
  lower(frames, 'y');
}
