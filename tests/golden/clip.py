#!/usr/bin/env python3
"""Makes clip.tsv, the numbers that tests/clip.c compares with, by Pillow, torchvision and list arithmetic in Python.

Rows (checksums are CRC-32 of the bytes; picture(y, x, c) = (37 x + 59 y + 101 c + x y mod 251 + x x c mod 13) mod 256):
  scale   frame_h frame_w channels top left h w  scaled_h scaled_w  top left h w  flip  passes  checksum
  colour  operation factor checksum               operations: 0 brightness, 1 contrast, 2 saturation, 3 hue; on picture 40 x 50
  jitter  f0 f1 f2 f3 o0 o1 o2 o3 checksum        all of them in that order
  normal  mean use_mean use_std value_scale channels original checksum    of float32 [256, channels], row i from byte i in all channels
  even    stride n length limit original checksum count          of int64 frame numbers of all windows
  slide   stride n length step checksum count                    the original's
"""
import math
import zlib

import numpy as np
import PIL
import torch
import torchvision.transforms.functional as F
from PIL import Image

assert PIL.__version__ == "13.0.0"
MEANS = [((0.4345, 0.4051, 0.3775), (0.2768, 0.2713, 0.2737)), ((0.4477, 0.4209, 0.3906), (0.2767, 0.2695, 0.2714)),
         ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]


def picture(h, w, channels):
    y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(channels), indexing="ij")
    return ((37 * x + 59 * y + 101 * c + x * y % 251 + x * x * c % 13) % 256).astype(np.uint8)


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def resize(plane, h, w, passes):
    if passes == 1:  # up to 12.3: across, then down; each call needs one pass
        return plane.resize((w, plane.height), Image.BILINEAR).resize((w, h), Image.BILINEAR)
    return plane.resize((w, h), Image.BILINEAR)


def scale(row):
    fh, fw, channels, t, l, h, w, sh, sw, wt, wl, wh, ww, flip, passes = row
    image = picture(fh, fw, channels)
    planes = [Image.fromarray(np.ascontiguousarray(image[..., c])).crop((l, t, l + w, t + h)) for c in range(channels)]
    out = np.stack([np.asarray(resize(p, sh, sw, passes)) for p in planes], -1)
    if channels == 3:
        whole = resize(Image.fromarray(image).crop((l, t, l + w, t + h)), sh, sw, passes)
        assert (np.asarray(whole) == out).all()
    out = out[wt:wt + wh, wl:wl + ww]
    return crc(out[:, ::-1] if flip else out)


def scale_rows(rng):
    fixed = [(240, 320, 0, 0, 240, 320, 112, 149), (240, 427, 0, 0, 240, 427, 112, 199), (320, 240, 0, 0, 320, 240, 149, 112),
             (188, 150, 0, 0, 188, 150, 112, 112), (189, 150, 0, 0, 189, 150, 112, 112), (40, 40, 0, 0, 40, 40, 15, 28),
             (112, 112, 0, 0, 112, 112, 112, 112), (64, 112, 3, 0, 50, 112, 112, 112), (112, 64, 0, 3, 112, 50, 112, 112),
             (1, 1, 0, 0, 1, 1, 7, 5), (90, 70, 10, 11, 1, 1, 112, 112), (1000, 30, 0, 0, 1000, 30, 9, 9)]
    for i in range(120):
        if i < len(fixed):
            fh, fw, t, l, h, w, sh, sw = fixed[i]
        else:
            fh, fw = (int(v) for v in rng.integers(8, 300, 2))
            h, w = int(rng.integers(1, fh + 1)), int(rng.integers(1, fw + 1))
            t, l = int(rng.integers(0, fh - h + 1)), int(rng.integers(0, fw - w + 1))
            sh, sw = (int(v) for v in rng.integers(1, 120, 2))
        window = (0, 0, sh, sw)
        if i % 2:
            wh, ww = int(rng.integers(1, sh + 1)), int(rng.integers(1, sw + 1))
            window = (int(rng.integers(0, sh - wh + 1)), int(rng.integers(0, sw - ww + 1)), wh, ww)
        yield (fh, fw, 2 if i % 7 == 3 else 3, t, l, h, w, sh, sw, *window, i // 2 % 2, int(i % 5 == 4))


OPERATIONS = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]


def jitter(factors, order):
    image = Image.fromarray(picture(40, 50, 3))
    for o in order:
        image = OPERATIONS[o](image, factors[o])
    return crc(np.asarray(image))


def normal(mean, use_mean, use_std, value_scale, channels, original):
    m, s = MEANS[2 if channels == 2 and not original else mean]
    m = [v * value_scale for v in m[:channels]] if use_mean else [0] * channels
    s = [v * value_scale for v in s[:channels]] if use_std else [1] * channels
    image = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], channels, 2)
    x = F.normalize(F.to_tensor(image) * value_scale, m, s)
    return crc(x.permute(1, 2, 0).contiguous().numpy().astype(np.float32))


def loop(frames, length):
    return [frames[i % len(frames)] for i in range(length)]


def even(stride, n, length, limit, original):
    listed = list(range(1, 1 + stride * n, stride))
    step = max(1, math.ceil((n - 1 - length) / (limit - 1)))
    clips = []
    for begin in range(0, n, step):
        if len(clips) == limit:
            break
        clip = list(range(listed[begin], min(listed[-1] + 1, listed[begin] + length))) if original else listed[begin:begin + length]
        clips.append(loop(clip, length))
        if len(clip) < length:
            break
    return clips


def slide(stride, n, length, step):
    listed = list(range(1, 1 + stride * n, stride))
    clips = []
    for begin in listed[::step or length]:
        clip = list(range(begin, min(listed[-1] + 1, begin + length)))
        clips.append(loop(clip, length))
        if len(clip) < length:
            break
    return clips


def main():
    rng = np.random.default_rng(11)
    rows = [("scale", *r, scale(r)) for r in scale_rows(rng)]
    for operation in range(4):
        for factor in ([-0.5, -0.21, -0.002, 0, 0.1, 0.37, 0.5] if operation == 3 else [0, 0.3, 0.77, 1, 1.2, 1.9, 3.5]):
            rows.append(("colour", operation, factor, crc(np.asarray(OPERATIONS[operation](Image.fromarray(picture(40, 50, 3)), factor)))))
    for _ in range(8):
        factors = [*(round(float(v), 3) for v in rng.uniform(0.3, 1.7, 3)), round(float(rng.uniform(-0.4, 0.4)), 3)]
        order = [int(v) for v in rng.permutation(4)]
        rows.append(("jitter", *factors, *order, jitter(factors, order)))
    for case in ((0, 1, 1, 1, 3, 0), (0, 1, 1, 255, 3, 0), (1, 1, 1, 1, 3, 0), (1, 1, 0, 255, 3, 0), (2, 1, 1, 1, 3, 0), (0, 0, 0, 1, 3, 0),
                 (0, 1, 1, 1, 2, 0), (0, 1, 1, 1, 2, 1), (1, 0, 1, 255, 2, 1)):
        rows.append(("normal", *case, normal(*case)))
    for stride in (1, 2, 3):
        for n, length, limit in ((5, 16, 3), (16, 16, 3), (17, 16, 3), (20, 16, 3), (32, 16, 3), (50, 16, 3), (100, 16, 3), (250, 16, 3), (300, 16, 3),
                                 (40, 16, 2), (40, 16, 5), (30, 16, 10), (31, 8, 4)):
            for original in (0, 1):
                clips = even(stride, n, length, limit, original)
                rows.append(("even", stride, n, length, limit, original, crc(np.array(clips, np.int64)), len(clips)))
        for n, length, step in ((10, 16, 0), (16, 16, 0), (20, 16, 4), (20, 16, 16), (33, 16, 16), (40, 16, 8), (280, 16, 16), (47, 8, 5)):
            clips = slide(stride, n, length, step)
            rows.append(("slide", stride, n, length, step, crc(np.array(clips, np.int64)), len(clips)))
    with open("clip.tsv", "w") as out:
        out.write("#kind\tvalues\n")
        for row in rows:
            out.write("\t".join(str(v) for v in row) + "\n")


torch.set_num_threads(1)
main()
