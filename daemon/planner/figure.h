/* Writes bytes and times with a unit that a person reads easily, for messages and tables.
 *
 * Purity: pure. */
#ifndef HSP_FIGURE_H
#define HSP_FIGURE_H

struct hsp_figure {
    char text[32];
};

/* "512 B", "1.5 GiB". */
struct hsp_figure hsp_bytes_figure(double bytes);
/* "250 us", "12.0 ms", "1.50 s". @us: microseconds. */
struct hsp_figure hsp_time_figure(double us);

#endif
