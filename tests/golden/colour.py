#!/usr/bin/env python3
"""Makes colour.tsv: matplotlib's "Spectral" as the original program uses it, for float32 values in and around [0,1].

Needs numpy and matplotlib; run it here: python3 colour.py
"""
import os
import matplotlib
import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))
edges = np.arange(257, dtype=np.float32) / np.float32(256)
values = np.concatenate([edges, np.nextafter(edges, np.float32(-9)), np.nextafter(edges, np.float32(9)),
    np.random.default_rng(0).random(300, dtype=np.float32), np.float32([-1, 2, -np.inf, np.inf])])
colours = matplotlib.colormaps["Spectral"](values, bytes=False)[:, :3]
with open("colour.tsv", "w", encoding="utf-8") as file:
    file.write("#value\tred\tgreen\tblue\n")
    for value, colour in zip(values, (colours * 255).astype(np.uint8)):
        file.write("%.9g\t%d\t%d\t%d\n" % (value, *colour))
