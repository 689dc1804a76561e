"""Times a training step of the same U-Net in PyTorch with diffusers: step.py [demo|fifth|full] [THREADS [SECONDS]].

Prints "mean_s TAB fastest_s TAB cpu_s". Both NCHW and channels-last are tried; the faster one is printed.
"""
import sys
import time

import torch
from diffusers import UNet2DConditionModel

WORK = {
    "demo": dict(widths=(32, 64), heads=(1, 2), cross=(1, 1), layers=1, groups=8, context=32, size=(8, 12, 16)),
    "fifth": dict(widths=(64, 128, 256, 256), heads=(1, 2, 4, 4), cross=(1, 1, 1, 0), layers=2, groups=32, context=1024,
                  size=(2, 60, 80)),
    "full": dict(widths=(320, 640, 1280, 1280), heads=(5, 10, 20, 20), cross=(1, 1, 1, 0), layers=2, groups=32,
                 context=1024, size=(1, 60, 80)),
}


def network(work):
    return UNet2DConditionModel(
        in_channels=8, out_channels=4, block_out_channels=work["widths"], attention_head_dim=work["heads"],
        layers_per_block=work["layers"], norm_num_groups=work["groups"], cross_attention_dim=work["context"],
        down_block_types=tuple("CrossAttnDownBlock2D" if c else "DownBlock2D" for c in work["cross"]),
        up_block_types=tuple("CrossAttnUpBlock2D" if c else "UpBlock2D" for c in reversed(work["cross"])),
        use_linear_projection=True)


def measure(work, seconds, memory_format):
    torch.manual_seed(0)
    batch, height, width = work["size"]
    net = network(work).to(memory_format=memory_format)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.randn(batch, 8, height, width).contiguous(memory_format=memory_format)
    context, target = torch.randn(batch, 2, work["context"]), torch.randn(batch, 4, height, width)
    t = torch.arange(batch) * 131 % 1000

    def step():
        adam.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x, t, context).sample, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()

    step()
    took, start, cpu = [], time.monotonic(), time.process_time()
    while len(took) < 3 or time.monotonic() - start < seconds:
        before = time.monotonic()
        step()
        took.append(time.monotonic() - before)
    return sum(took) / len(took), min(took), (time.process_time() - cpu) / len(took)


def main():
    work = WORK[sys.argv[1] if len(sys.argv) > 1 else "demo"]
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 5
    results = [measure(work, seconds, f) for f in (torch.contiguous_format, torch.channels_last)]
    print("\t".join(f"{value:.6f}" for value in min(results, key=lambda r: r[1])))


main()
