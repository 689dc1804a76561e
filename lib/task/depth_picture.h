/* Pictures of a prediction beside its image and truth. */
#ifndef NIGHTSHIFT_TASK_DEPTH_PICTURE_H
#define NIGHTSHIFT_TASK_DEPTH_PICTURE_H

#include "data/depth.h"
#include "file/image.h"

/* Three panels of equal size side by side: the image, the prediction and the truth in the Spectral colours (near red, far blue), both
 * depth panels over the truth's 2 % to 98 % range; invalid truth is black. `depth` is [height,width] in [0,1], aligned to the truth
 * by least squares where it has valid pixels. image->data is the caller's. */
int depth_picture(const struct depth_sample *sample, const float *depth, struct image *image);
/* The prediction alone in colour. */
int depth_picture_colour(const float *depth, int height, int width, struct image *image);
/* The prediction as 16-bit grey: trunc(depth x 65535). */
int depth_picture_grey16(const float *depth, int height, int width, struct image *image);

#endif
