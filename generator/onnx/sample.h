/* Reading an image between its pixels: what GridSample, RoiAlign and DeformConv share. */
#ifndef ONNX_SAMPLE_H
#define ONNX_SAMPLE_H
#include "onnx/formulas.h"

enum { MOST_PLACES = 3, MOST_TAPS = 4 };
typedef enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } Padding;
typedef enum { BY_NEAREST, BY_LINEAR, BY_CUBIC } Sampling;

/* Images whose pixels are rows of a matrix, so that one gather brings all channels of a pixel. */
typedef struct Image {
    Import *im;
    Value *rows;             /* (maps * d.., c) */
    int rank;                /* spatial axes */
    Expr *size[MOST_PLACES]; /* of them */
    Value *map;              /* i64, broadcasts to the places asked for: which map each looks at */
    Padding padding;
    bool takes_largest; /* of a sample's weighted pixels, in place of their sum (RoiAlign's max, as ONNX defines it) */
    bool align_corners; /* of reflection: about the centres of the border's pixels, else about their edges */
} Image;

/* Rows of x (n, c, d..), with the channels in `groups` parts: n * groups maps of c / groups channels.  The caller sets map. */
Image image_of(Import *im, const OnnxNode *node, Value *x, int64_t groups);
/* at[]: for each spatial axis the float place of every sample, all of one shape (..).  Gives (.., c). */
Value *sample_image(const Image *image, Value *const *at, Sampling sampling);
#endif
