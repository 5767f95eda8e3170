/* report.html: one page about the generated program, for a browser without a network: memory over the step at any dims, plans,
 * buffers, kernels, guards, what trains.  templates/report.html is the page; here its data are written. */
#ifndef REPORT_H
#define REPORT_H
#include "emit/program.h"

/* groups: beside programs. */
const char *report_html(const Project *project, const Layout *layout, Program *const *programs, const Groups *const *groups, int n);
#endif
