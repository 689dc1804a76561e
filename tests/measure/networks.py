"""Takes training steps of the same networks in PyTorch: networks.py WORK [THREADS [LAYOUT [PRECISION]]].

WORK, the lines of the standard input and the answers as in networks.c; LAYOUT: plain or channels-last; PRECISION: f32 or bf16
(autocast). The U-Nets are those of diffusers; the 3D ResNets and the surface are written out here. With one
thread the seconds are those of the processor time.
"""
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WORK = sys.argv[1]
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
LAST = len(sys.argv) > 3 and sys.argv[3] == "channels-last"
BF16 = len(sys.argv) > 4 and sys.argv[4] == "bf16"
CLOCK = time.process_time if THREADS == 1 else time.monotonic
torch.set_num_threads(THREADS)
torch.manual_seed(0)


# ---- 3D ResNets ----

class Block(nn.Module):
    def __init__(self, inner, width, stride, deep):
        super().__init__()
        outer = width * (4 if deep else 1)
        sizes = [(inner, width, 1, 1), (width, width, 3, stride), (width, outer, 1, 1)] if deep else \
            [(inner, width, 3, stride), (width, outer, 3, 1)]
        self.convolutions = nn.ModuleList(nn.Conv3d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm3d(o) for _, o, _, _ in sizes)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv3d(inner, outer, 1, stride, bias=False), nn.BatchNorm3d(outer))

    def forward(self, x):
        y = x
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            y = norm(convolution(y))
            if i < len(self.norms) - 1:
                y = self.relu(y)
        y += self.shortcut(x) if self.shortcut else x
        return self.relu(y)


def resnet3d(depth):
    deep, inner, layers = depth >= 50, 64, []
    for i, count in enumerate({18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]):
        for j in range(count):
            layers.append(Block(inner, 64 << i, 2 if i and not j else 1, deep))
            inner = (64 << i) * (4 if deep else 1)
    return nn.Sequential(nn.Conv3d(3, 64, 7, (1, 2, 2), 3, bias=False), nn.BatchNorm3d(64), nn.ReLU(inplace=True),
                         nn.MaxPool3d(3, 2, 1), *layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inner, 400))


def resnet_step(depth):
    form = torch.channels_last_3d if LAST else torch.contiguous_format
    net = resnet3d(depth).to(memory_format=form)
    x = torch.randn(4, 3, 16, 112, 112).contiguous(memory_format=form)
    target = torch.arange(4) * 7 % 400
    return net, torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-3), lambda: F.cross_entropy(net(x), target)


# ---- U-Nets ----

UNETS = {
    "unet-demo": dict(widths=(32, 64), heads=(1, 2), cross=(1, 1), layers=1, groups=8, context=32, size=(8, 12, 16)),
    "unet-fifth": dict(widths=(64, 128, 256, 256), heads=(1, 2, 4, 4), cross=(1, 1, 1, 0), layers=2, groups=32, context=1024,
                       size=(2, 60, 80)),
    "unet-full": dict(widths=(320, 640, 1280, 1280), heads=(5, 10, 20, 20), cross=(1, 1, 1, 0), layers=2, groups=32,
                      context=1024, size=(1, 60, 80)),
}


def unet_step(work):
    from diffusers import UNet2DConditionModel
    form = torch.channels_last if LAST else torch.contiguous_format
    net = UNet2DConditionModel(
        in_channels=8, out_channels=4, block_out_channels=work["widths"], attention_head_dim=work["heads"],
        layers_per_block=work["layers"], norm_num_groups=work["groups"], cross_attention_dim=work["context"],
        down_block_types=tuple("CrossAttnDownBlock2D" if c else "DownBlock2D" for c in work["cross"]),
        up_block_types=tuple("CrossAttnUpBlock2D" if c else "UpBlock2D" for c in reversed(work["cross"])),
        use_linear_projection=True).to(memory_format=form)
    batch, height, width = work["size"]
    x = torch.randn(batch, 8, height, width).contiguous(memory_format=form)
    context, target = torch.randn(batch, 2, work["context"]), torch.randn(batch, 4, height, width)
    t = torch.arange(batch) * 131 % 1000
    return net, torch.optim.Adam(net.parameters(), lr=1e-4), lambda: F.mse_loss(net(x, t, context).sample.float(), target)


# ---- a surface ----

LEVELS, FEATURES, FIRST, FINAL, ENTRIES, RAYS, COARSE, FINE, ROUNDS, HIDDEN = 8, 4, 4, 9, 18, 128, 16, 8, 2, 64
PRIMES = (1, 2654435761, 805459861)
TAPS = torch.tensor([[1., -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]])


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        growth = math.exp(math.log(2.0) * (FINAL - FIRST) / (LEVELS - 1))
        scales = [growth**level * 2**FIRST - 1 for level in range(LEVELS)]
        sides = [math.ceil(scale) + 1 for scale in scales]
        entries = [min(-(-side**3 // 8) * 8, 2**ENTRIES) for side in sides]
        self.register_buffer("scale", torch.tensor(scales)[:, None])
        self.register_buffer("side", torch.tensor(sides))
        self.register_buffer("entries", torch.tensor(entries))
        self.register_buffer("first", torch.tensor([sum(entries[:level]) for level in range(LEVELS)]))
        self.register_buffer("dense", torch.tensor([side**3 <= count for side, count in zip(sides, entries)]))
        self.register_buffer("corners", torch.tensor([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)]))
        self.table = nn.Parameter(torch.rand(sum(entries), FEATURES) * 2e-4 - 1e-4)

    def forward(self, x):
        p = (x[:, None] + 2) / 4 * self.scale + 0.5
        cell = p.floor()
        fraction = (p - cell)[:, :, None]
        at = cell.long()[:, :, None] + self.corners
        side = self.side[:, None]
        dense = at[..., 0] + side * (at[..., 1] + side * at[..., 2])
        hashed = at[..., 0] ^ at[..., 1] * PRIMES[1] ^ at[..., 2] * PRIMES[2]
        row = torch.where(self.dense[:, None], dense, hashed & 0xffffffff) % self.entries[:, None] + self.first[:, None]
        weight = torch.where(self.corners.bool(), fraction, 1 - fraction).prod(-1, keepdim=True)
        return (F.embedding(row, self.table) * weight).sum(2).flatten(1)


class Normed(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.v = nn.Parameter(torch.randn(outer, inner) * math.sqrt(2 / outer))
        self.g = nn.Parameter(self.v.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        return F.linear(x, self.g * self.v / self.v.norm(dim=1, keepdim=True), self.bias)


def harmonics(d):
    x, y, z = d.unbind(-1)
    xx, yy, zz = x * x, y * y, z * z
    return torch.stack([
        torch.full_like(x, 0.28209479), -0.48860251 * y, 0.48860251 * z, -0.48860251 * x, 1.09254843 * x * y, -1.09254843 * y * z,
        0.31539157 * (2 * zz - xx - yy), -1.09254843 * x * z, 0.54627422 * (xx - yy), -0.59004359 * y * (3 * xx - yy),
        2.89061144 * x * y * z, -0.4570458 * y * (4 * zz - xx - yy), 0.37317633 * z * (2 * zz - 3 * xx - 3 * yy),
        -0.4570458 * x * (4 * zz - xx - yy), 1.44530572 * z * (xx - yy), -0.59004359 * x * (xx - 3 * yy)], -1)


class Surface(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = Grid()
        self.hidden = Normed(3 + LEVELS * FEATURES, HIDDEN)
        self.feature = Normed(HIDDEN, HIDDEN)
        self.distance = nn.Linear(HIDDEN, 1)
        self.colour = nn.ModuleList([Normed(3 + 16 + 3 + HIDDEN, HIDDEN), Normed(HIDDEN, HIDDEN), Normed(HIDDEN, 3)])
        self.slope = nn.Parameter(torch.tensor(3.0))

    def sdf(self, x, feature=False):
        flat = x.reshape(-1, 3)
        h = F.softplus(self.hidden(torch.cat([flat, self.grid(flat)], -1)), 100)
        f = self.distance(h).reshape(x.shape[:-1])
        return (f, F.softplus(self.feature(h), 100)) if feature else f

    @torch.no_grad()
    def samples(self, origin, view, near, far):
        t = near + (far - near) * (torch.arange(COARSE) + 0.5) / COARSE
        f = self.sdf(origin[:, None] + t[..., None] * view[:, None])
        for turn in range(ROUNDS):
            slope = 64 << turn
            step = t[:, 1:] - t[:, :-1]
            c = (f[:, 1:] - f[:, :-1]) / (step + 1e-5)
            c = torch.minimum(c, torch.cat([torch.zeros_like(c[:, :1]), c[:, :-1]], 1))
            middle = (f[:, 1:] + f[:, :-1]) / 2
            before, behind = torch.sigmoid(slope * (middle - c * step / 2)), torch.sigmoid(slope * (middle + c * step / 2))
            alpha = ((before - behind) / (before + 1e-5)).clamp(0, 1)
            w = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
            cdf = torch.cumsum(w / w.sum(1, keepdim=True).clamp(min=1e-12), 1)
            cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], 1)
            u = ((torch.arange(FINE) + 0.5) / FINE).expand(len(t), FINE).contiguous()
            index = torch.searchsorted(cdf, u, right=True)
            low, high = (index - 1).clamp(min=0), index.clamp(max=t.shape[1] - 1)
            t_low, c_low = t.gather(1, low), cdf.gather(1, low)
            more = t_low + (u - c_low) / (cdf.gather(1, high) - c_low + 1e-8) * (t.gather(1, high) - t_low)
            t, order = torch.sort(torch.cat([t, more], 1), 1)
            if turn + 1 < ROUNDS:
                f = torch.cat([f, self.sdf(origin[:, None] + more[..., None] * view[:, None])], 1).gather(1, order)
        return t

    def forward(self, origin, view, near, far, target):
        epsilon = 1 / 513 / math.sqrt(3)
        t = self.samples(origin, view, near, far)
        x = origin[:, None] + t[..., None] * view[:, None]
        f, feature = self.sdf(x, True)
        around = self.sdf(x[None] + epsilon * TAPS[:, None, None])
        gradient = (around[..., None] * TAPS[:, None, None]).sum(0) / (4 * epsilon)
        trace = (around.sum(0) / 2 - 2 * f) / epsilon**2
        count = RAYS * t.shape[1]
        y = torch.cat([x.reshape(count, 3), harmonics(view)[:, None].expand(-1, t.shape[1], -1).reshape(count, 16),
                       F.normalize(gradient, dim=-1).reshape(count, 3), feature], -1)
        for i, layer in enumerate(self.colour):
            y = layer(y) if i == 2 else F.relu(layer(y))
        colour = torch.sigmoid(y).reshape(RAYS, -1, 3)
        step = torch.cat([t[:, 1:], far], 1) - t
        c = -F.relu(-(gradient * view[:, None]).sum(-1))
        slope = self.slope.exp()
        before, behind = torch.sigmoid(slope * (f - c * step / 2)), torch.sigmoid(slope * (f + c * step / 2))
        alpha = ((before - behind) / (before + 1e-5)).clamp(0, 1)
        weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        shown = (weight[..., None] * colour).sum(1)
        return 3 * (shown - target).abs().mean() + 0.1 * ((gradient.norm(dim=-1) - 1)**2).mean() + 5e-4 * trace.abs().mean()


def surface_step():
    net = Surface()
    origin = torch.cat([torch.rand(RAYS, 2) - 0.5, torch.full((RAYS, 1), -3.0)], 1)
    view = F.normalize((torch.rand(RAYS, 3) - 0.5) * 0.8 - origin, dim=1)
    along = (origin * view).sum(1, keepdim=True)
    root = (along**2 - (origin**2).sum(1, keepdim=True) + 1).sqrt()
    target = torch.rand(RAYS, 3)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-2)
    return net, optimizer, lambda: net(origin, view, -along - root, -along + root, target)


# ---- steps ----

def main():
    if WORK == "surface":
        net, optimizer, loss_of = surface_step()
    elif WORK in UNETS:
        net, optimizer, loss_of = unet_step(UNETS[WORK])
    else:
        net, optimizer, loss_of = resnet_step(int(WORK.rsplit("-", 1)[1]))

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=BF16):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    step()
    print("PyTorch", torch.__version__, flush=True)
    print(WORK, sum(p.numel() for p in net.parameters()), "parameters", file=sys.stderr)
    for _ in sys.stdin:
        before = CLOCK()
        step()
        took = CLOCK() - before
        print(f"{took:.6f}\t{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)


main()
