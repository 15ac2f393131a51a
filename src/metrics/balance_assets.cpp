// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance_assets.h"

namespace ballast {

const std::string_view kBalanceStyle = R"css(
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px;margin-bottom:14px}
.bar{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:center;margin:0 0 10px;font-size:13px;position:sticky;top:0;z-index:2;
background:var(--page);padding:8px 0}
.bar label{display:flex;gap:10px;align-items:center;flex:1 1 300px;min-width:0}
.bar input{flex:1;min-width:60px;accent-color:var(--c0)}
.bar output{min-width:76px}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:3px 0;width:64px;
cursor:pointer}
.key{display:flex;gap:16px;align-items:center;color:var(--quiet)}
.key div{position:relative;width:210px;height:26px}
.key div i{position:absolute;left:0;right:0;top:0;height:10px;border-radius:3px;
background:linear-gradient(90deg,var(--c0),var(--map) 50%,var(--c1));box-shadow:0 0 0 1px var(--edge)}
.key div span{position:absolute;top:13px;transform:translateX(-50%);font-size:11.5px;line-height:1}
.key>i{margin-right:-8px;width:12px;height:12px;border-radius:3px;background:var(--text)}
:root{--map:#e9ecf1}
@media(prefers-color-scheme:dark){:root{--map:#252b34}}
.map .plot{height:auto;border:0;overflow:visible}
canvas{position:absolute;width:100%;height:100%;image-rendering:pixelated;border-radius:3px;box-shadow:0 0 0 1px var(--edge)}
.cell{position:absolute;display:none;outline:2px solid var(--text);outline-offset:0;box-shadow:0 0 0 4px var(--card);pointer-events:none;min-width:2px}
.tip{position:absolute;display:none;z-index:1;padding:6px 10px;font-size:12.5px;line-height:1.35;white-space:nowrap;
pointer-events:none;background:var(--card);border:1px solid var(--quiet);border-radius:8px;box-shadow:0 2px 8px #0003;
font-variant-numeric:tabular-nums}
.total td{font-weight:600;border-top:2px solid var(--quiet)}
.loads td:nth-child(2),.loads th:nth-child(2){text-align:left}
@media(max-width:500px){.bar{position:static}}
)css";

const std::string_view kBalanceScript = R"js(
(() => {
  const data = JSON.parse(document.getElementById('loads').textContent);
  const figures = [...document.querySelectorAll('.map')];
  const maps = data.map((run, i) => ({
    ...run, plot: figures[i].querySelector('.plot'), canvas: figures[i].querySelector('canvas'),
    at: figures[i].querySelector('.at'), cell: figures[i].querySelector('.cell'), tip: figures[i].querySelector('.tip'),
    means: run.counts.map(layers => layers.map(counts => counts.reduce((a, b) => a + b, 0) / counts.length)),
  }));
  const steps = [...new Set(maps.flatMap(map => map.steps))].sort((a, b) => a - b);
  const slider = document.getElementById('step'), label = document.getElementById('at'), play = document.getElementById('play');
  const colorOf = name => {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  };
  const number = x => x >= 100 ? x.toFixed(0) : String(+x.toPrecision(3));
  let pointed = null;

  const showCell = map => {
    const row = pointed && map.layers[pointed.row];
    const isShown = row && pointed.expert < row.experts;
    map.cell.style.display = map.tip.style.display = isShown ? 'block' : 'none';
    if (!isShown) return;
    const height = 100 / map.layers.length, width = 100 / map.experts;
    const left = pointed.expert * width, top = pointed.row * height;
    map.cell.style.cssText = `display:block;left:${left}%;top:${top}%;width:${width}%;height:${height}%`;
    const count = map.counts[map.frame][pointed.row][pointed.expert], mean = map.means[map.frame][pointed.row];
    const amount = count === 0 ? 'no assignment' : count === 1 ? '1 assignment' : `${count} assignments`;
    const times = count > 0 ? `, ${number(count / mean)} times the mean of ${number(mean)}` : `, mean ${number(mean)}`;
    map.tip.innerHTML = `<b>layer ${row.layer}, expert ${pointed.expert}</b>${row.hash ? ' (hash)' : ''}<br>${amount}${times}`;
    const side = left < 50 ? `left:${left + width}%;margin-left:8px` : `right:${100 - left}%;margin-right:8px`;
    const edge = top < 50 ? `top:${top}%` : `bottom:${100 - top - height}%`;
    map.tip.style.cssText = `display:block;${side};${edge}`;
    const box = map.tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
    const off = box.left < 4 ? 4 - box.left : box.right > room - 4 ? room - 4 - box.right : 0;
    if (off) map.tip.style.transform = `translateX(${off}px)`;
  };
  const draw = map => {
    const [low, even, high, dead] = ['--c0', '--map', '--c1', '--text'].map(colorOf);
    map.canvas.width = map.experts;
    map.canvas.height = map.layers.length;
    const context = map.canvas.getContext('2d'), image = context.createImageData(map.canvas.width, map.canvas.height);
    map.counts[map.frame].forEach((counts, row) => counts.forEach((count, expert) => {
      const mean = map.means[map.frame][row];
      const place = count > 0 ? Math.max(-1, Math.min(1, Math.log2(count / mean) / 3)) : 0;
      const end = place < 0 ? low : high, color = even.map((x, i) => x + (end[i] - x) * Math.abs(place));
      image.data.set([...(count > 0 || mean === 0 ? color : dead), 255], 4 * (row * map.experts + expert));
    }));
    context.putImageData(image, 0, 0);
  };
  const show = () => {
    const step = steps[slider.value];
    label.textContent = 'step ' + step;
    for (const map of maps) {
      map.frame = Math.max(0, map.steps.findLastIndex(other => other <= step));
      map.at.textContent = 'step ' + map.steps[map.frame];
      draw(map);
      showCell(map);
    }
  };
  const point = (row, expert) => {
    pointed = row === null ? null : {row, expert};
    maps.forEach(showCell);
  };
  for (const map of maps) {
    const move = event => {
      const box = map.plot.getBoundingClientRect();
      const share = (at, from, size, count) => Math.min(Math.max(Math.floor((at - from) / size * count), 0), count - 1);
      point(share(event.clientY, box.top, box.height, map.layers.length), share(event.clientX, box.left, box.width, map.experts));
    };
    map.plot.addEventListener('pointermove', move);
    map.plot.addEventListener('pointerdown', move);
    map.plot.addEventListener('pointerleave', event => event.pointerType === 'mouse' && point(null));
    map.plot.addEventListener('blur', () => point(null));
    map.plot.addEventListener('keydown', event => {
      const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
      if (!by) return;
      event.preventDefault();
      const at = pointed ?? {row: 0, expert: -by[1]};
      point(Math.min(Math.max(at.row + by[0], 0), map.layers.length - 1), Math.min(Math.max(at.expert + by[1], 0), map.experts - 1));
    });
  }
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = 'Play';
  };
  play.addEventListener('click', () => {
    if (timer) return stop();
    if (+slider.value === steps.length - 1) slider.value = 0;
    play.textContent = 'Stop';
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      show();
      if (+slider.value === steps.length - 1) stop();
    }, Math.max(60, Math.min(400, 8000 / steps.length)));
    show();
  });
  slider.addEventListener('input', () => {
    if (timer) stop();
    show();
  });
  slider.max = steps.length - 1;
  slider.value = steps.indexOf(Math.max(...maps.map(map => map.step)));
  slider.disabled = play.disabled = steps.length === 1;
  matchMedia('(prefers-color-scheme:dark)').addEventListener('change', () => maps.forEach(draw));
  show();
})();
)js";

}  // namespace ballast
