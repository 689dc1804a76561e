/* DenseNet over clips against vectors of other software. */
#include "cpu/cpu.h"
#include "resnet3d_fixture.h"

int main(void)
{
	check_vector("densenet-121", &cpu_backend, 1, NULL);
	check_vector("case 9: densenet-121, kt 3, t-stride 2, no max-pool", &cpu_backend, 1, NULL);
	return check_summary();
}
