# The CPU image and what a GPU needs. Build after it:
#   docker build -t gpu_wcoj:gpu -f docker/gpu.Dockerfile .
#   RAPIDS_JAR=/path/to.jar docker compose -f docker/compose.yaml -f docker/compose.gpu.yaml up
# The driver's libraries come from the host, by NVIDIA's container toolkit, CUDA's from PyPI. The jar of the RAPIDS
# Accelerator, a gigabyte, holds its own and is mounted: `make test-rapids` fetches it.
FROM gpu_wcoj:cpu
USER 0
COPY docker/constraints.txt docker/gpu-constraints.txt /opt/gpu_wcoj/
RUN pip install --no-cache-dir --constraint /opt/gpu_wcoj/constraints.txt \
    --constraint /opt/gpu_wcoj/gpu-constraints.txt "cupy-cuda13x[ctk]"
COPY --chmod=755 docker/gpus.sh /opt/gpu_wcoj/gpus.sh
USER 10001
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
