#!/usr/bin/env python3
"""Makes what tests/video.c reads: HDF5 files as h5py writes them, and in video.tsv the CRC-32 of each frame as Pillow decodes it.

plain.hdf5 as the original's tool writes it (reopened for each frame), latest.hdf5 in the newest form, chunked.hdf5 in pieces of 2,
flow.hdf5 with video_u and video_v, compressed.hdf5 with a filter, wrong.hdf5 of numbers.
"""
import io
import os
import zlib

import h5py
import numpy as np
from PIL import Image

FRAMES = 4
kind = h5py.special_dtype(vlen=np.dtype("uint8"))


def jpeg(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "JPEG", quality=80)
    return np.frombuffer(out.getvalue(), np.uint8)


def frame(i, channels):
    y, x, c = np.meshgrid(np.arange(18), np.arange(26), np.arange(channels), indexing="ij")
    return ((9 * x + 7 * y + 40 * c + 31 * i + x * y % 13) % 256).astype(np.uint8)


def write(name, images, **options):
    dataset = {k: options.pop(k) for k in ("chunks", "compression") if k in options}
    with h5py.File(f"video/{name}.hdf5", "w", **options) as file:
        for key, list_of in images.items():
            file.create_dataset(key, (len(list_of),), dtype=kind, **dataset)
    for key, list_of in images.items():
        for i, image in enumerate(list_of):
            with h5py.File(f"video/{name}.hdf5", "r+") as file:
                file[key][i] = image


def main():
    os.makedirs("video", exist_ok=True)
    colour = [jpeg(frame(i, 3)) for i in range(FRAMES)]
    flows = {key: [jpeg(frame(i + k, 1)[..., 0]) for i in range(FRAMES)] for k, key in enumerate(("video_u", "video_v"))}
    write("plain", {"video": colour})
    write("latest", {"video": colour}, libver="latest")
    write("chunked", {"video": colour}, chunks=(2,))
    write("compressed", {"video": colour}, chunks=(2,), compression="gzip")
    write("flow", flows)
    with h5py.File("video/wrong.hdf5", "w") as file:
        file.create_dataset("video", data=np.zeros(3))
    with open("video.tsv", "w") as out:
        out.write("#kind\tframe\tcrc\n")
        for i in range(FRAMES):
            pixels = np.asarray(Image.open(io.BytesIO(colour[i].tobytes())).convert("RGB"))
            out.write(f"rgb\t{i}\t{zlib.crc32(pixels.tobytes())}\n")
        for i in range(FRAMES):
            both = [np.asarray(Image.open(io.BytesIO(flows[k][i].tobytes()))) for k in ("video_u", "video_v")]
            out.write(f"flow\t{i}\t{zlib.crc32(np.stack(both, -1).tobytes())}\n")


main()
