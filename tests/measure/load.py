"""Times the loading of the same clips as the original does it, by Pillow and torchvision in worker processes: load.py DIR [WORKERS [SECONDS]].

Prints "clips a second TAB processor milliseconds a clip".
"""
import glob
import os
import random
import resource
import sys
import time

import torch
from PIL import Image
from torchvision import transforms

LENGTH, SIDE = 16, 112
MEAN, STD = [0.4345, 0.4051, 0.3775], [0.2768, 0.2713, 0.2737]


class Clips(torch.utils.data.Dataset):
    def __init__(self, root):
        self.videos = sorted(glob.glob(os.path.join(root, "*", "*")))
        self.frames = [len(os.listdir(v)) for v in self.videos]
        self.to_tensor = transforms.ToTensor()
        self.normalise = transforms.Normalize(MEAN, STD)

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        which = random.randrange(len(self.videos))
        begin = random.randint(0, max(0, self.frames[which] - LENGTH))
        clip = []
        for i in range(begin, min(begin + LENGTH, self.frames[which])):
            path = os.path.join(self.videos[which], f"image_{i + 1:05d}.jpg")
            if os.path.exists(path):
                with open(path, "rb") as file:
                    clip.append(Image.open(file).convert("RGB"))
        i, j, h, w = transforms.RandomResizedCrop.get_params(clip[0], (0.25, 1.0), (0.75, 1 / 0.75))
        flip = random.random() < 0.5
        out = []
        for image in clip:
            image = image.crop((j, i, j + w, i + h)).resize((SIDE, SIDE), Image.BILINEAR)
            if flip:
                image = image.transpose(Image.FLIP_LEFT_RIGHT)
            out.append(self.normalise(self.to_tensor(image)))
        return torch.stack(out, 0).permute(1, 0, 2, 3)


def main():
    root, workers, seconds = sys.argv[1], int((sys.argv[2:] or [2])[0]), float((sys.argv[3:] or [5])[0])
    torch.set_num_threads(1)
    loader = iter(torch.utils.data.DataLoader(Clips(root), batch_size=8, num_workers=workers))
    next(loader)
    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        count += next(loader).shape[0]
    wall = time.perf_counter() - start
    loader._shutdown_workers()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{count / wall:.2f}\t{1e3 * (used.ru_utime + used.ru_stime) / count:.3f}")


main()
