// SPDX-License-Identifier: Apache-2.0
#include "metrics/report_assets.h"

namespace ballast {

const std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--text:#1b1f24;--quiet:#667080;--edge:#e0e4ea;--grid:#e9ecf1;
--c0:#2563c9;--c1:#d9730d;--c2:#7c4dbd;--marks:#0f8a5f;--bad:#d1242f;--best:#e7f6ef}
@media(prefers-color-scheme:dark){:root{--page:#101317;--card:#181c22;--text:#e4e8ee;--quiet:#96a0af;--edge:#2a3039;
--grid:#252b34;--c0:#6ea3ff;--c1:#ffa94d;--c2:#bb96f2;--marks:#46d39a;--bad:#ff6b6b;--best:#173226}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1240px;margin:0 auto;padding:20px 16px 40px}
h1{font-size:24px;line-height:1.2;margin:0;overflow-wrap:anywhere}
h2{font-size:17px;margin:28px 0 10px}
small,.quiet{color:var(--quiet);font-size:13px}
header p{margin:4px 0 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:16px 0}
.tiles div,figure,.table,.note{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.tiles div{padding:10px 14px}
.tiles span{display:block;color:var(--quiet);font-size:13px}
.tiles b{display:block;font-size:22px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums}
.note{padding:10px 14px;margin:10px 0;border-left:4px solid var(--c1)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px}
figure{margin:0;padding:12px 14px 8px;min-width:0;display:flex;flex-direction:column}
figcaption{display:flex;gap:8px;align-items:baseline}
.at{margin-left:auto;font-size:13px;color:var(--quiet);font-variant-numeric:tabular-nums;white-space:nowrap}
ul{list-style:none;margin:6px 0 10px;padding:0;font-size:13px}
li{display:flex;gap:8px;align-items:baseline;white-space:nowrap;min-height:20px}
li i{flex:none;width:14px;height:3px;border-radius:2px;align-self:center;background:var(--color)}
li i.dot{width:9px;height:9px;margin:0 3px 0 2px;border-radius:50%}
output{font-weight:600;font-variant-numeric:tabular-nums;overflow:hidden;text-overflow:ellipsis}
li small{margin-left:auto;font-size:12px;font-variant-numeric:tabular-nums}
.warn{color:var(--bad)}
.c0{--color:var(--c0)}.c1{--color:var(--c1)}.c2{--color:var(--c2)}.marks{--color:var(--marks)}.bad{--color:var(--bad)}
.plot{position:relative;height:210px;margin:auto 6px 24px 46px;border-bottom:1px solid var(--quiet);touch-action:pan-y;
cursor:crosshair;outline-offset:4px}
svg{position:absolute;width:100%;height:100%;overflow:visible}
path{fill:none;stroke:var(--color);vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.grid{stroke:var(--grid);stroke-width:1;stroke-linecap:butt}
.raw{stroke-width:1;opacity:.45}
.line{stroke-width:2}
.bundle .line{stroke-width:1.3;opacity:.7}
.bundle .line.on{stroke-width:3.5;opacity:1}
.dots{stroke-width:8}.many{stroke-width:4}
.y,.x,.xlabel{position:absolute;font-size:11.5px;line-height:1;color:var(--quiet);white-space:nowrap;
font-variant-numeric:tabular-nums}
.y{right:100%;margin-right:7px;transform:translateY(-50%)}
.x{top:100%;margin-top:7px;transform:translateX(-50%)}
.xlabel{top:100%;right:100%;margin:7px 14px 0 0}
.cursor{position:absolute;top:0;bottom:0;width:1px;background:var(--quiet);display:none;pointer-events:none}
.table{overflow-x:auto;padding:4px 0}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:6px 14px;text-align:right;white-space:nowrap;border-top:1px solid var(--edge)}
tr:first-child th{border-top:0}
th{font-weight:600;color:var(--quiet)}
th:first-child,td:first-child{text-align:left}
.best td{background:var(--best);font-weight:600}
@media(max-width:500px){main{padding:16px 10px 30px}figure{padding:10px 10px 6px}.plot{height:190px}
th,td{padding:6px}.tags td:first-child{white-space:normal;overflow-wrap:anywhere}table{font-size:13px}li{gap:6px}output{font-size:12px}}
)css";

const std::string_view kReportScript = R"js(
(() => {
  const charts = [...document.querySelectorAll('.charts figure')].map(figure => ({
    ...JSON.parse(figure.querySelector('script').textContent),
    plot: figure.querySelector('.plot'), cursor: figure.querySelector('.cursor'), at: figure.querySelector('.at'),
    rows: [...figure.querySelectorAll('li:not(.warn)')].map(row =>
      ({color: row.querySelector('i'), name: row.querySelector('span'), value: row.querySelector('output'),
        note: row.querySelector('small')})),
    paths: [...figure.querySelectorAll('.line')],
  }));
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] <= step) low = middle; else high = middle;
    }
    return high > 0 && steps[high] - step < step - steps[low] ? high : Math.max(low, 0);
  };
  const share = (chart, value) => {
    const at = chart.log ? Math.log : x => x;
    return (at(value) - at(chart.y[0])) / (at(chart.y[1]) - at(chart.y[0]));
  };
  const nearestLine = (chart, step, height) => {
    const index = nearest(chart.steps, step);
    let best = chart.lead, distance = Infinity;
    chart.lines.forEach((line, i) => {
      const off = typeof line.v[index] === 'number' ? Math.abs(share(chart, line.v[index]) - height) : Infinity;
      if (off < distance) [best, distance] = [i, off];
    });
    return best;
  };
  const showOne = (chart, index, name) => {
    if (name !== undefined && chart.names.includes(name)) chart.lead = chart.names.indexOf(name);
    const row = chart.rows[0], value = chart.lines[chart.lead].v[index];
    row.name.textContent = chart.names[chart.lead];
    row.value.textContent = value === null ? '\u2013' : value;
    row.color.style.cssText = chart.paths[chart.lead].style.cssText;
    chart.paths.forEach((path, i) => path.classList.toggle('on', i === chart.lead));
    chart.paths[chart.lead].parentNode.append(chart.paths[chart.lead]);
  };
  const show = (step, hasCursor, name) => {
    for (const chart of charts) {
      const all = chart.steps.length ? chart.steps : chart.marks.steps;
      const index = nearest(all, step);
      chart.index = index;
      chart.at.textContent = 'step ' + all[index];
      chart.cursor.style.display = hasCursor ? 'block' : 'none';
      chart.cursor.style.left = 100 * (all[index] - chart.x[0]) / (chart.x[1] - chart.x[0]) + '%';
      if (chart.names) showOne(chart, index, name);
      else chart.lines.forEach((line, i) => {
        const value = line.v[index], mean = line.m.length ? line.m[index] : null;
        chart.rows[i].value.textContent = value === null || value === undefined ? '\u2013' : value;
        chart.rows[i].note.textContent = mean === null ? '' : 'mean ' + mean;
      });
      if (chart.marks.steps.length) {
        const mark = nearest(chart.marks.steps, step), row = chart.rows[chart.lines.length];
        row.value.textContent = chart.marks.v[mark];
        row.note.textContent = 'step ' + chart.marks.steps[mark];
      }
    }
  };
  for (const chart of charts) {
    const move = event => {
      const box = chart.plot.getBoundingClientRect();
      const step = chart.x[0] + (event.clientX - box.left) / box.width * (chart.x[1] - chart.x[0]);
      const height = 1 - (event.clientY - box.top) / box.height;
      show(step, true, chart.names && chart.names[nearestLine(chart, step, height)]);
    };
    chart.plot.addEventListener('pointermove', move);
    chart.plot.addEventListener('pointerdown', move);
    chart.plot.addEventListener('pointerleave', event => event.pointerType === 'mouse' && show(Infinity, false));
    chart.plot.addEventListener('keydown', event => {
      const other = chart.names && {ArrowUp: 1, ArrowDown: -1}[event.key];
      if (other) {
        event.preventDefault();
        const last = chart.names.length - 1, all = chart.steps;
        show(all[chart.index ?? all.length - 1], true, chart.names[Math.min(Math.max(chart.lead + other, 0), last)]);
      }
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by) return;
      event.preventDefault();
      const all = chart.steps.length ? chart.steps : chart.marks.steps;
      const index = Math.min(Math.max((chart.index ?? all.length - 1) + by, 0), all.length - 1);
      show(all[index], true);
    });
  }
})();
)js";

}  // namespace ballast
