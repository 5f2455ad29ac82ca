
// Writes names into boxes, shortened where they do not fit: for the library that draws, and in its terms.
function update_text_for_elements(elements) {
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
