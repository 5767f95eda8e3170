/* copies.h on the processor.  A copy ends as late as it may, and what it will write holds rubbish until then: a step that reads too
 * early, or overwrites too early, goes wrong here as it would on a GPU. */
#include "copies.h"
#include "faults.h"
#include <stdlib.h>
#include <string.h>

struct Transfer {
    void *to;
    const void *from;
    size_t bytes;
};
struct Copies {
    Device *device;
    char *host;
    int64_t room;
    Transfer *out; /* by point; bytes 0: done */
    int n_points;
    Transfer *back;
    int n_back;
};

bool copies_lead_elsewhere(void)
{
    return false;
}

int copies_open(Copies **copies, Device *device, int n_points)
{
    Copies *c = *copies = (Copies *)calloc(1, sizeof(Copies));
    if (!c) return DEVICE_OUT_OF_MEMORY;
    c->device = device;
    c->n_points = n_points;
    c->out = (Transfer *)calloc((size_t)n_points + 1, sizeof(Transfer));
    c->back = (Transfer *)calloc((size_t)n_points + 1, sizeof(Transfer));
    return c->out && c->back ? DEVICE_OK : DEVICE_OUT_OF_MEMORY;
}

void copies_close(Copies *c)
{
    if (!c) return;
    free(c->host);
    free(c->out);
    free(c->back);
    free(c);
}

int copies_room(Copies *c, int64_t bytes)
{
    if (bytes <= c->room) return DEVICE_OK;
    free(c->host);
    c->room = 0;
    c->host = fault_is_due(&device_faults(c->device)->fail_host_memory) ? NULL : (char *)malloc((size_t)bytes);
    if (!c->host) return DEVICE_OUT_OF_MEMORY;
    c->room = bytes;
    return DEVICE_OK;
}

static void finish(Transfer *t)
{
    if (t->bytes) memcpy(t->to, t->from, t->bytes);
    t->bytes = 0;
}

int copies_out(Copies *c, int point, const void *from, int64_t host_at, int64_t bytes)
{
    if (host_at + bytes > c->room) return DEVICE_COPY_FAILED;
    c->out[point] = Transfer{c->host + host_at, from, (size_t)bytes};
    return DEVICE_OK;
}

int copies_out_done(Copies *c, int point)
{
    finish(&c->out[point]);
    return DEVICE_OK;
}

int copies_back(Copies *c, void *to, int64_t host_at, int64_t bytes)
{
    if (host_at + bytes > c->room || c->n_back >= c->n_points) return DEVICE_COPY_FAILED;
    memset(to, 0xA5, (size_t)bytes);
    c->back[c->n_back++] = Transfer{to, c->host + host_at, (size_t)bytes};
    return DEVICE_OK;
}

int copies_back_done(Copies *c)
{
    for (int i = 0; i < c->n_back; i++) finish(&c->back[i]);
    c->n_back = 0;
    return DEVICE_OK;
}
