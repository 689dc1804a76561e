/* 3D ResNets of bottlenecks against vectors of other software. */
#include "cpu/cpu.h"
#include "resnet3d_fixture.h"

static const struct {
	const char *name;
	double length, sum, first; /* 0: not known */
} gradients[] = {{"conv1.weight", 443.31977, 467.28839, 1.0360699}, {"bn1.weight", 12.208823, -4.4433461, 0},
	{"layer1.0.conv1.weight", 10.061994, 0, 0}, {"layer1.0.conv3.weight", 15.386464, 0, 0},
	{"layer1.0.downsample.0.weight", 15.678064, 0, 0}, {"layer2.0.conv2.weight", 28.777899, 0, 0},
	{"layer3.5.bn3.weight", 0.30231131, 0, 0}, {"layer4.2.conv3.weight", 0.95478590, 0, 0},
	{"fc.weight", 8.6727142, 0, 0}, {"fc.bias", 0.64982193, 0, 0}};

/* Norms of single small tensors differ by up to 3e-3 in PyTorch's single precision, elements by a hundredth. */
static void look(struct net *net)
{
	double numbers[3];

	for (size_t i = 0; i < sizeof(gradients) / sizeof(*gradients); i++) {
		net_slot(net, gradients[i].name, SLOT_GRADIENT, numbers);
		compare(net, numbers[0], gradients[i].length, 3e-3 * gradients[i].length, "length of %s",
			gradients[i].name);
		if (gradients[i].sum != 0)
			compare(net, numbers[1], gradients[i].sum, 1e-2 * gradients[i].length, "sum of %s",
				gradients[i].name);
		if (gradients[i].first != 0)
			compare(net, numbers[2], gradients[i].first, 2e-2 * gradients[i].first,
				"first element of %s", gradients[i].name);
	}
}

int main(void)
{
	check_vector("resnet-50 B", &cpu_backend, 1, look);
	check_vector("case 5: resnet-50 B, widen 0.125", &cpu_backend, 1, NULL);
	return check_summary();
}
