// SPDX-License-Identifier: Apache-2.0

#include "lab/chart.h"

#include "base/base.h"

#include <math.h>

enum {
    lines_width = 760,
    lines_height_min = 340,
    plot_left = 70,
    plot_right = 560,
    plot_top = 34,
    plot_bottom_space = 52,
    legend_left = 576,
    legend_row = 15,
    bars_width = 560,
    bars_left = 170,
    bars_right = 480,
    bars_row = 18,
    mark_label_half = 100,
    hue_count = 8, // beside the one that matters
    tick_max = 32,
};

static const char style[] =
    ".chart{--c0:#d9480f;--c1:#1c6fb8;--c2:#2b8a3e;--c3:#9c36b5;--c4:#0b7285;--c5:#c2255c;"
    "--c6:#5c6b7a;--c7:#946c00;--c8:#4c4fc4;--ink:#212529;--faint:#dee2e6;--paper:#fff;"
    "font:12px system-ui,sans-serif;max-width:100%;height:auto}\n"
    "@media(prefers-color-scheme:dark){.chart{--c0:#ff922b;--c1:#74c0fc;--c2:#8ce99a;--c3:#e599f7;"
    "--c4:#66d9e8;--c5:#faa2c1;--c6:#adb5bd;--c7:#ffd43b;--c8:#a5a8ff;--ink:#e9ecef;"
    "--faint:#3b4148;--paper:#16191d}}\n"
    ".chart text{fill:var(--ink)}.chart .title{font-weight:600;font-size:14px}"
    ".chart .grid{stroke:var(--faint);stroke-width:1}.chart .end{text-anchor:end}"
    ".chart .mid{text-anchor:middle}.chart .mark{stroke:var(--ink);stroke-dasharray:5 3}"
    ".chart .s path,.chart .s line{fill:none;stroke:var(--c);stroke-width:1.7}"
    ".chart .s rect,.chart .s circle{fill:var(--c)}.chart .s.c0 path{stroke-width:3}"
    ".chart .c0 text{font-weight:600}.chart .d1{stroke-dasharray:6 3}"
    ".chart .d2{stroke-dasharray:2 3}.chart .c0{--c:var(--c0)}.chart .c1{--c:var(--c1)}"
    ".chart .c2{--c:var(--c2)}.chart .c3{--c:var(--c3)}.chart .c4{--c:var(--c4)}"
    ".chart .c5{--c:var(--c5)}.chart .c6{--c:var(--c6)}.chart .c7{--c:var(--c7)}"
    ".chart .c8{--c:var(--c8)}.chart .s "
    "text{paint-order:stroke;stroke:var(--paper);stroke-width:3px}"
    ".chart:has(.s:hover) .s:not(:hover){opacity:.15}.chart .s:hover path{stroke-width:3.5}\n";

static const char page_style[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1400px;padding:0 1rem;"
    "color:#212529;background:#fff}\n"
    "h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid #ced4da}"
    "summary{cursor:pointer;font-weight:600;margin:.8rem 0}"
    ".row{display:flex;flex-wrap:wrap;gap:1rem}.scroll{overflow-x:auto}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0}"
    "th,td{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #e9ecef}"
    "th:first-child,td:first-child{text-align:left}td.best{font-weight:700;color:#2b8a3e}"
    "tr.judge td:first-child{font-weight:700;color:#d9480f}.note{color:#5c6b7a}\n"
    "@media(prefers-color-scheme:dark){body{color:#e9ecef;background:#16191d}"
    "h2{border-color:#3b4148}th,td{border-color:#2b3036}td.best{color:#8ce99a}"
    "tr.judge td:first-child{color:#ff922b}.note{color:#adb5bd}}\n";

void chart_begin_page(FILE *out, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    chart_write_text(out, title);
    fprintf(out, "</title>\n<style>\n%s%s</style></head><body>\n<h1>", page_style, style);
    chart_write_text(out, title);
    fputs("</h1>\n", out);
}

void chart_end_page(FILE *out)
{
    fputs("</body></html>\n", out);
}

void chart_write_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

// Three digits that count, and never an exponent.
static int chart_write_digits(char *out, size_t size, double value, const char *unit)
{
    double big = fabs(value);
    if (big >= 100 || big == 0) {
        return snprintf(out, size, "%.0f%s", value, unit);
    }
    // 9.999 would come out with one digit more than 10.
    return snprintf(out, size, "%.*f%s", big >= 9.995 ? 1 : 2 + (big < 0.0995), value, unit);
}

void chart_format(enum chart_unit unit, double value, char out[chart_value_size])
{
    switch (unit) {
    case CHART_MS:
        if (value >= 1000) {
            chart_write_digits(out, chart_value_size, value / 1000, " s");
        } else {
            chart_write_digits(out, chart_value_size, value, " ms");
        }
        return;
    case CHART_PERCENT:
        snprintf(out, chart_value_size, "%.1f%%", value * 100);
        return;
    case CHART_NUMBER:
        break;
    }
    chart_write_digits(out, chart_value_size, value, "");
}

// Ticks are round: no digit more than they need.
static void format_tick(enum chart_unit unit, double value, char out[chart_value_size])
{
    switch (unit) {
    case CHART_MS:
        snprintf(out, chart_value_size, "%.4g %s", value >= 1000 ? value / 1000 : value,
                 value >= 1000 ? "s" : "ms");
        return;
    case CHART_PERCENT:
        snprintf(out, chart_value_size, "%.4g%%", value * 100);
        return;
    case CHART_NUMBER:
        break;
    }
    snprintf(out, chart_value_size, "%.6g", value);
}

// Where values lie on the paper.
struct scale {
    double low;
    double high;
    double from; // of the paper
    double to;
    bool is_log;
    double ticks[tick_max];
    uint32_t tick_count;
};

static double scale_place(const struct scale *scale, double value)
{
    double low = scale->low;
    double high = scale->high;
    double at = fmin(fmax(value, low), high);
    double share = scale->is_log ? log(at / low) / log(high / low) : (at - low) / (high - low);
    return scale->from + share * (scale->to - scale->from);
}

static void add_tick(struct scale *scale, double value)
{
    // Room for rounding: the last one of 0.1, 0.2, 0.3 is not 0.3.
    double slack = (scale->high - scale->low) * 1e-9;
    if (scale->tick_count < tick_max && value >= scale->low - slack &&
        value <= scale->high + slack) {
        scale->ticks[scale->tick_count++] = value;
    }
}

static void tick_evenly(struct scale *scale)
{
    double raw = (scale->high - scale->low) / 5;
    double decade = pow(10, floor(log10(raw)));
    double times = raw / decade;
    double step = decade * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
    double first = floor(scale->low / step);
    for (int i = 0; i < tick_max; i++) {
        add_tick(scale, (first + i) * step);
    }
}

static void tick_by_decades(struct scale *scale)
{
    bool is_wide = scale->high / scale->low > 2000;
    int first = (int)floor(log10(scale->low));
    for (int i = first; i < first + tick_max; i++) {
        double decade = pow(10, i);
        add_tick(scale, decade);
        if (!is_wide) {
            add_tick(scale, 2 * decade);
            add_tick(scale, 5 * decade);
        }
    }
}

// Widened so that low and high are apart, and to round numbers where the axis begins at zero.
static void scale_close(struct scale *scale)
{
    if (scale->is_log) {
        if (!(scale->low > 0) || !isfinite(scale->low)) {
            scale->low = 1;
            scale->high = 10;
        }
        scale->low /= 1.1;
        scale->high *= 1.1;
        tick_by_decades(scale);
        return;
    }
    if (!(scale->high > scale->low) || !isfinite(scale->high - scale->low)) {
        scale->low = isfinite(scale->low) ? scale->low : 0;
        scale->high = scale->low + 1;
    }
    tick_evenly(scale);
}

static void scale_take(struct scale *scale, double value)
{
    if (isfinite(value) && (!scale->is_log || value > 0)) {
        scale->low = fmin(scale->low, value);
        scale->high = fmax(scale->high, value);
    }
}

static void chart_write_label(FILE *out, double x, double y, const char *class, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    chart_write_text(out, text);
    fputs("</text>", out);
}

static void chart_write_line(FILE *out, const char *class, const double from[2], const double to[2])
{
    fprintf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", class,
            from[0], from[1], to[0], to[1]);
}

static void open_chart(FILE *out, const char *title, int width, int height)
{
    fprintf(out,
            "<svg class=\"chart\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
            "aria-label=\"",
            width, height, width, height);
    chart_write_text(out, title);
    fputs("\">\n", out);
    chart_write_label(out, 4, 16, "title", title);
}

static void open_series(FILE *out, uint32_t color)
{
    uint32_t hue = color == 0 ? 0 : (color - 1) % hue_count + 1;
    fprintf(out, "<g class=\"s c%u\">", hue);
}

static uint32_t dashes_of(uint32_t color)
{
    return color == 0 ? 0 : (color - 1) / hue_count % 3;
}

static void write_axes(FILE *out, const struct chart_lines *chart, const struct scale *x,
                       const struct scale *y)
{
    char label[chart_value_size];
    for (uint32_t i = 0; i < y->tick_count; i++) {
        double at = scale_place(y, y->ticks[i]);
        chart_write_line(out, "grid", (double[]){plot_left, at}, (double[]){plot_right, at});
        format_tick(chart->y.unit, y->ticks[i], label);
        chart_write_label(out, plot_left - 6, at + 4, "end", label);
    }
    for (uint32_t i = 0; i < x->tick_count; i++) {
        double at = scale_place(x, x->ticks[i]);
        chart_write_line(out, "grid", (double[]){at, y->to}, (double[]){at, y->from});
        format_tick(chart->x.unit, x->ticks[i], label);
        chart_write_label(out, at, y->from + 17, "mid", label);
    }
    chart_write_label(out, (x->from + x->to) / 2, y->from + 38, "mid", chart->x.label);
    fprintf(out, "<text transform=\"translate(14 %.1f) rotate(-90)\" class=\"mid\">",
            (y->from + y->to) / 2);
    chart_write_text(out, chart->y.label);
    fputs("</text>\n", out);
}

static void write_series(FILE *out, const struct chart_series *series, const struct scale *x,
                         const struct scale *y, uint32_t row)
{
    open_series(out, series->color);
    fputs("<title>", out);
    chart_write_text(out, series->name);
    fprintf(out, "</title><path class=\"d%u\" d=\"", dashes_of(series->color));
    char verb = 'M';
    for (uint32_t i = 0; i < series->point_count; i++) {
        if (isfinite(series->y[i])) {
            fprintf(out, "%c%.1f %.1f", verb, scale_place(x, series->x[i]),
                    scale_place(y, series->y[i]));
            verb = 'L';
        }
    }
    fputs("\"/>", out);
    // Dots where the points are few, so that one alone is seen too.
    for (uint32_t i = 0; i < series->point_count && series->point_count <= 12; i++) {
        if (isfinite(series->y[i])) {
            fprintf(out, "<circle r=\"2.5\" cx=\"%.1f\" cy=\"%.1f\"/>",
                    scale_place(x, series->x[i]), scale_place(y, series->y[i]));
        }
    }
    double at = plot_top + 6 + (double)row * legend_row;
    fprintf(out, "<line class=\"d%u\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>",
            dashes_of(series->color), legend_left, at, legend_left + 22, at);
    chart_write_label(out, legend_left + 28, at + 4, "", series->name);
    fputs("</g>\n", out);
}

void chart_write_lines(FILE *out, const struct chart_lines *chart)
{
    int height = plot_top + (int)chart->series_count * legend_row + 10;
    height = height < lines_height_min ? lines_height_min : height;
    struct scale x = {.low = INFINITY,
                      .high = -INFINITY,
                      .from = plot_left,
                      .to = plot_right,
                      .is_log = chart->x.is_log};
    struct scale y = {.low = chart->y.is_log ? INFINITY : 0,
                      .high = -INFINITY,
                      .from = height - plot_bottom_space,
                      .to = plot_top,
                      .is_log = chart->y.is_log};
    for (uint32_t i = 0; i < chart->series_count; i++) {
        for (uint32_t j = 0; j < chart->series[i].point_count; j++) {
            scale_take(&x, chart->series[i].x[j]);
            scale_take(&y, chart->series[i].y[j]);
        }
    }
    scale_close(&x);
    scale_close(&y);
    open_chart(out, chart->title, lines_width, height);
    write_axes(out, chart, &x, &y);
    // The judged series is drawn last, on top.
    for (int matters = 0; matters <= 1; matters++) {
        for (uint32_t i = 0; i < chart->series_count; i++) {
            if ((chart->series[i].color == 0) == (matters == 1)) {
                write_series(out, &chart->series[i], &x, &y, i);
            }
        }
    }
    fputs("</svg>\n", out);
}

static void chart_write_mark(FILE *out, const struct chart_bars *chart, double at, int bottom)
{
    char label[chart_value_size];
    chart_format(chart->unit, chart->mark, label);
    chart_write_line(out, "mark", (double[]){at, plot_top - 2}, (double[]){at, bottom + 4});
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"mid\">", fmin(at, bars_width - mark_label_half),
            bottom + 18);
    chart_write_text(out, chart->mark_name);
    fprintf(out, ": %s</text>\n", label);
}

void chart_write_bars(FILE *out, const struct chart_bars *chart)
{
    struct scale x = {.from = bars_left, .to = bars_right};
    for (uint32_t i = 0; i < chart->bar_count; i++) {
        scale_take(&x, chart->bars[i].value);
    }
    if (chart->mark_name != NULL) {
        scale_take(&x, chart->mark);
    }
    scale_close(&x);
    int bottom = plot_top + (int)chart->bar_count * bars_row;
    open_chart(out, chart->title, bars_width, bottom + 24);
    if (chart->mark_name != NULL) {
        chart_write_mark(out, chart, scale_place(&x, chart->mark), bottom);
    }
    for (uint32_t i = 0; i < chart->bar_count; i++) {
        const struct chart_bar *bar = &chart->bars[i];
        double top = plot_top + (double)i * bars_row;
        char label[chart_value_size];
        chart_format(chart->unit, bar->value, label);
        open_series(out, bar->color);
        chart_write_label(out, bars_left - 6, top + 12, "end", bar->name);
        fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", bars_left, top + 2,
                scale_place(&x, bar->value) - bars_left, bars_row - 5);
        chart_write_label(out, scale_place(&x, bar->value) + 5, top + 12, "", label);
        fputs("</g>\n", out);
    }
    fputs("</svg>\n", out);
}
