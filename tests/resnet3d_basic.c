/* 3D ResNets of basic blocks against vectors of other software, at all their options. */
#include "cpu/cpu.h"
#include "resnet3d_fixture.h"

struct gradient {
	const char *name;
	double length, sum, first;
};

/* Gradients of step 1. Elements of 0 belong to taps that only see padding. */
static const struct gradient gradients[] = {{"conv1.weight", 24.322148, -21.135524, 0.0092264718},
	{"bn1.weight", 0.89405762, 0.53962136, 0.066813516},
	{"bn1.bias", 0.34624418, 0.11118655, 0.020045339},
	{"layer1.0.conv1.weight", 3.9798575, 60.699967, 0.00040321396},
	{"layer2.0.conv1.weight", 3.9198850, -6.5615259, -2.2319014e-05},
	{"layer2.0.downsample.0.weight", 0.64184712, -0.50290131, 0.0012970333},
	{"layer2.0.downsample.1.weight", 0.33376745, 0.58633489, 0.0075050306},
	{"layer3.1.bn2.weight", 0.21363841, 0.064848399, 0.012949262},
	{"layer3.1.bn2.bias", 0.15221150, -0.026369117, 0.0045366064},
	{"layer4.1.conv2.weight", 2.3375590, -2.1993478, 0}, {"fc.weight", 3.5158932, 0, -0.058105679},
	{"fc.bias", 0.64132161, 0, -0.41316266}};

static void check_statistic(struct net *net, const char *name, double sum, double first, double tolerance)
{
	double numbers[3];

	net_slot(net, name, SLOT_VALUE, numbers);
	compare(net, numbers[1], sum, tolerance * fmax(1, fabs(sum)), "%s after a step", name);
	if (first != 0)
		compare(net, numbers[2], first, tolerance, "first element of %s", name);
}

/* Lengths of gradients to 5e-5 of themselves; sums of elements of either sign, and elements, to that of the length. */
static void look(struct net *net)
{
	static const double logits[] = {-0.33387959, -0.10895965, -0.050670072, -0.097968489};
	float values[20];
	double worst = 0, numbers[3];

	graph_read(net->train, net->logits[0], values);
	for (int i = 0; i < 4; i++)
		worst = fmax(worst, fabs(values[i] - logits[i]));
	compare(net, worst, 0, 6e-6, "logits in training");
	for (size_t i = 0; i < sizeof(gradients) / sizeof(*gradients); i++) {
		const struct gradient *g = &gradients[i];

		net_slot(net, g->name, SLOT_GRADIENT, numbers);
		compare(net, numbers[0], g->length, 5e-5 * g->length, "length of %s", g->name);
		compare(net, numbers[1], g->sum, 5e-4 * g->length, "sum of %s", g->name);
		compare(net, numbers[2], g->first, 5e-5 * g->length, "first element of %s", g->name);
	}
	check_statistic(net, "bn1.running_mean", -2.4981766e-05, 2.3943869e-05, 1e-6);
	check_statistic(net, "bn1.running_var", 57.982973, 0.90591987, 1e-6);
	check_statistic(net, "layer4.1.bn2.running_mean", -0.070991857, 0, 1e-5);
	check_statistic(net, "layer4.1.bn2.running_var", 461.13643, 0.90069071, 1e-5);
}

int main(void)
{
	check_vector("resnet-18 B", &cpu_backend, 1, look);
	check_vector("case 1: resnet-10 B, widen 0.125", &cpu_backend, 1, NULL);
	check_vector("case 2: resnet-10 A, widen 0.125", &cpu_backend, 1, NULL);
	check_vector("case 3: resnet-18 B, widen 0.25, kt 3", &cpu_backend, 1, NULL);
	check_vector("case 4: resnet-10 B, widen 0.125, kt 4", &cpu_backend, 1, NULL);
	check_vector("case 6: resnet2p1d-10 B, widen 0.25, kt 3, 2 channels", &cpu_backend, 1, NULL);
	check_vector("case 15: resnet-10 B, widen 0.125, trained from fc", &cpu_backend, 1, NULL);
	return check_summary();
}
