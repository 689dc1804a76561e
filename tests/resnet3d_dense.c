/* DenseNet over clips against vectors of other software. */
#include "cpu/cpu.h"
#include "resnet3d_fixture.h"

int main(void)
{
	check_vector("densenet-121", &cpu_backend, 1, NULL);
	return check_summary();
}
