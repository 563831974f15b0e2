#!/usr/bin/env python3
"""Compares our compiled .proto files with the descriptors inside an official Python client.

Usage: check_proto.py tritonclient|kserve
Runs in an environment that has the package; exits with 1 and one line a difference.

Every message, field, oneof, enum value and rpc of the package must be ours too, equal in name,
number, type and label, but for what the package's row of PACKAGES lists. A row that is out of date is
a difference too.
"""

import base64
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import descriptor_pb2

DESCRIPTOR_SET = Path(__file__).parents[2] / "src" / "proto" / "descriptor-set.ts"
PROTO_PACKAGE = "inference"


@dataclass(frozen=True)
class Package:
    """A client and how its contract differs from ours; keys as `entries` spells them."""

    modules: tuple[str, ...]
    # Messages and enums that only we have, with all that is in them.
    our_types: frozenset[str] = frozenset()
    # Single entries that only we have.
    our_entries: frozenset[str] = frozenset()
    # Entries that the package has otherwise, or alone.
    other_entries: frozenset[str] = frozenset()


# KServe publishes the core of the protocol. What Triton adds to it (streams, configuration,
# statistics, shared memory, trace and log settings), and we serve, is not there. The load and unload
# messages are different ones by the same names; the calls of Triton are what clients use.
KSERVE = Package(
    modules=("kserve.protocol.grpc.grpc_predict_v2_pb2",),
    our_types=frozenset(
        f"inference.{name}"
        for name in """
        BatchInput BatchOutput DataType ModelConfig ModelDynamicBatching ModelEnsembling ModelInput
        ModelInstanceGroup ModelMetrics ModelOperations ModelOptimizationPolicy ModelOutput
        ModelParameter ModelQueuePolicy ModelRateLimiter ModelRepositoryAgents ModelResponseCache
        ModelSequenceBatching ModelTensorReshape ModelTransactionPolicy ModelVersionPolicy ModelWarmup
        ModelStreamInferResponse ModelConfigRequest ModelConfigResponse
        InferBatchStatistics InferResponseStatistics InferStatistics MemoryUsage ModelStatistics
        ModelStatisticsRequest ModelStatisticsResponse StatisticDuration
        ModelRepositoryParameter RepositoryIndexRequest RepositoryIndexResponse
        RepositoryModelLoadRequest.ParametersEntry RepositoryModelUnloadRequest.ParametersEntry
        SystemSharedMemoryStatusRequest SystemSharedMemoryStatusResponse
        SystemSharedMemoryRegisterRequest SystemSharedMemoryRegisterResponse
        SystemSharedMemoryUnregisterRequest SystemSharedMemoryUnregisterResponse
        CudaSharedMemoryStatusRequest CudaSharedMemoryStatusResponse
        CudaSharedMemoryRegisterRequest CudaSharedMemoryRegisterResponse
        CudaSharedMemoryUnregisterRequest CudaSharedMemoryUnregisterResponse
        TraceSettingRequest TraceSettingResponse LogSettingsRequest LogSettingsResponse
        """.split()
    ),
    our_entries=frozenset(
        [
            "field inference.InferParameter.double_param",
            "field inference.InferParameter.uint64_param",
            "field inference.RepositoryModelLoadRequest.parameters",
            "field inference.RepositoryModelLoadRequest.repository_name",
            "field inference.RepositoryModelUnloadRequest.parameters",
            "field inference.RepositoryModelUnloadRequest.repository_name",
            *(
                f"rpc inference.GRPCInferenceService.{name}"
                for name in """
                ModelStreamInfer ModelConfig ModelStatistics RepositoryIndex
                SystemSharedMemoryStatus SystemSharedMemoryRegister SystemSharedMemoryUnregister
                CudaSharedMemoryStatus CudaSharedMemoryRegister CudaSharedMemoryUnregister
                TraceSetting LogSettings
                """.split()
            ),
        ]
    ),
    other_entries=frozenset(
        {
            "field inference.RepositoryModelLoadRequest.model_name",
            "field inference.RepositoryModelLoadResponse.isLoaded",
            "field inference.RepositoryModelLoadResponse.model_name",
            "field inference.RepositoryModelUnloadRequest.model_name",
            "field inference.RepositoryModelUnloadResponse.isUnloaded",
            "field inference.RepositoryModelUnloadResponse.model_name",
        }
    ),
)

PACKAGES = {
    "tritonclient": Package(
        modules=("tritonclient.grpc.model_config_pb2", "tritonclient.grpc.service_pb2")
    ),
    "kserve": KSERVE,
}


def our_files() -> list[descriptor_pb2.FileDescriptorProto]:
    text = DESCRIPTOR_SET.read_text(encoding="utf-8")
    match = re.search(r"`([A-Za-z0-9+/=\s]+)`;", text)
    if match is None:
        raise SystemExit(f"no base64 text in {DESCRIPTOR_SET}")
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(base64.b64decode(match.group(1)))
    return [file for file in files.file if file.package == PROTO_PACKAGE]


def package_files(package: Package) -> list[descriptor_pb2.FileDescriptorProto]:
    files = []
    for name in package.modules:
        file = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(name).DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def entries(files: list[descriptor_pb2.FileDescriptorProto]) -> dict[str, str]:
    """Everything that is part of the contract, as one flat table of name and meaning."""
    table: dict[str, str] = {}
    for file in files:
        for message in file.message_type:
            add_message(table, f"{file.package}.{message.name}", message)
        for enum in file.enum_type:
            add_enum(table, f"{file.package}.{enum.name}", enum)
        for service in file.service:
            for rpc in service.method:
                table[f"rpc {file.package}.{service.name}.{rpc.name}"] = (
                    f"{'stream ' if rpc.client_streaming else ''}{rpc.input_type} -> "
                    f"{'stream ' if rpc.server_streaming else ''}{rpc.output_type}"
                )
    return table


def add_message(
    table: dict[str, str], name: str, message: descriptor_pb2.DescriptorProto
) -> None:
    table[f"message {name}"] = "map entry" if message.options.map_entry else "message"
    for field in message.field:
        oneof = (
            f" in oneof {message.oneof_decl[field.oneof_index].name}"
            if field.HasField("oneof_index")
            else ""
        )
        table[f"field {name}.{field.name}"] = (
            f"number {field.number} type {field.type} {field.type_name} "
            f"label {field.label}{oneof}"
        )
    for nested in message.nested_type:
        add_message(table, f"{name}.{nested.name}", nested)
    for enum in message.enum_type:
        add_enum(table, f"{name}.{enum.name}", enum)


def add_enum(
    table: dict[str, str], name: str, enum: descriptor_pb2.EnumDescriptorProto
) -> None:
    table[f"enum {name}"] = "enum"
    for value in enum.value:
        table[f"value {name}.{value.name}"] = str(value.number)


def differences(package: Package, ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    expected = package.other_entries
    lines = [
        f"different: {key}: ours is {ours.get(key)}, the package has {theirs[key]}"
        for key in theirs
        if ours.get(key) != theirs[key] and key not in expected
    ]
    lines += [
        f"not in the package: {key} ({ours[key]})"
        for key in ours
        if key not in theirs and key not in package.our_entries and not is_ours(package, key)
    ]
    lines += [f"no difference any more: {key}" for key in expected if ours.get(key) == theirs.get(key)]
    lines += [
        f"no difference any more: {key}"
        for key in package.our_entries
        if key in theirs or key not in ours
    ]
    lines += [
        f"no difference any more: {name}"
        for name in package.our_types
        if is_known(theirs, name) or not is_known(ours, name)
    ]
    return lines


def is_ours(package: Package, key: str) -> bool:
    """Whether the entry belongs to a type that only we have."""
    kind, name = key.split(" ")
    return kind != "rpc" and any(
        name == known or name.startswith(f"{known}.") for known in package.our_types
    )


def is_known(table: dict[str, str], name: str) -> bool:
    return f"message {name}" in table or f"enum {name}" in table


def main(names: list[str]) -> int:
    if len(names) != 1 or names[0] not in PACKAGES:
        print(f"usage: check_proto.py {'|'.join(PACKAGES)}", file=sys.stderr)
        return 2
    package = PACKAGES[names[0]]
    ours, theirs = entries(our_files()), entries(package_files(package))
    lines = differences(package, ours, theirs)
    for line in lines:
        print(line)
    equal = sum(ours.get(key) == value for key, value in theirs.items())
    print(f"{names[0]}: {equal} of {len(theirs)} entries equal")
    print(f"{max(len(theirs) - len(lines), 0)} passed, {len(lines)} failed")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
