#!/usr/bin/env python3
"""Compares our compiled .proto files with the descriptors inside the official Python client.

Usage: check_proto.py  (needs tritonclient[grpc]; exits with 1 and one line a difference)

Every message, field, oneof, enum value and rpc of the package must be ours too, equal in name,
number, type and label. We may have more only where NEWER lists it.
"""

import base64
import re
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

DESCRIPTOR_SET = Path(__file__).parents[2] / "src" / "proto" / "descriptor-set.ts"
PACKAGE = "inference"

# Entries of ours that the package does not know yet, as `entries` spells their keys.
NEWER: set[str] = set()


def our_files() -> list[descriptor_pb2.FileDescriptorProto]:
    text = DESCRIPTOR_SET.read_text(encoding="utf-8")
    match = re.search(r"`([A-Za-z0-9+/=\s]+)`;", text)
    if match is None:
        raise SystemExit(f"no base64 text in {DESCRIPTOR_SET}")
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(base64.b64decode(match.group(1)))
    return [file for file in files.file if file.package == PACKAGE]


def package_files() -> list[descriptor_pb2.FileDescriptorProto]:
    files = []
    for module in (model_config_pb2, service_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
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


def differences(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    lines = [f"missing: {key} ({theirs[key]})" for key in theirs if key not in ours]
    lines += [
        f"different: {key}: ours is {ours[key]}, the package has {theirs[key]}"
        for key in theirs
        if key in ours and ours[key] != theirs[key]
    ]
    lines += [
        f"not in the package: {key} ({ours[key]})"
        for key in ours
        if key not in theirs and key not in NEWER
    ]
    lines += [f"in the package by now: {key}" for key in NEWER if key in theirs]
    return lines


def main() -> int:
    ours, theirs = entries(our_files()), entries(package_files())
    lines = differences(ours, theirs)
    for line in lines:
        print(line)
    print(f"{max(len(theirs) - len(lines), 0)} passed, {len(lines)} failed")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
