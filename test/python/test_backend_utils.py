"""Unit tests of workers/python: `python3 -m unittest discover test/python`."""

from __future__ import annotations

import os
import sys
import unittest
from typing import Any, List

import numpy as np

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "workers", "python")
)

import triton_python_backend_utils as pb_utils  # noqa: E402
from nereid_host import datatypes, errors, framework, wire  # noqa: E402
from nereid_host.request import decode_requests  # noqa: E402
from nereid_host.response import decode_response  # noqa: E402


def joined(parts: List[Any]) -> bytearray:
    return bytearray(b"".join(bytes(part) for part in parts))


class TensorTest(unittest.TestCase):
    def test_knows_name_shape_and_datatype(self) -> None:
        cases = [
            (np.bool_, "TYPE_BOOL"),
            (np.uint8, "TYPE_UINT8"),
            (np.int64, "TYPE_INT64"),
            (np.longlong, "TYPE_INT64"),
            (np.ulonglong, "TYPE_UINT64"),
            (np.float16, "TYPE_FP16"),
            (np.object_, "TYPE_STRING"),
        ]
        for dtype, name in cases:
            with self.subTest(name):
                tensor = pb_utils.Tensor("X", np.zeros((2, 3), dtype))
                self.assertEqual(tensor.name(), "X")
                self.assertEqual(tensor.shape(), [2, 3])
                self.assertEqual(tensor.triton_dtype(), name)
                self.assertTrue(tensor.is_cpu())

    def test_refuses_what_is_no_tensor(self) -> None:
        cases = [
            (5, np.zeros(1), "name must be a str, not int"),
            ("X", [1], "expected a numpy array, got list"),
            ("X", np.zeros(1, np.complex64), "complex64 has no datatype"),
            ("X", np.zeros(1, "datetime64[s]"), "has no datatype"),
        ]
        for name, array, message in cases:
            with self.subTest(message):
                with self.assertRaisesRegex(pb_utils.TritonModelException, message):
                    pb_utils.Tensor(name, array)  # type: ignore[arg-type]

    def test_passes_through_dlpack(self) -> None:
        for array in [
            np.arange(6, dtype=np.float32).reshape(2, 3),
            np.arange(6, dtype=np.int16).reshape(2, 3).T,
            np.array([True, False]),
            np.zeros((0, 2), np.int8),
            np.array(7, np.uint64),
        ]:
            with self.subTest(str(array.dtype)):
                source = pb_utils.Tensor("X", array)
                for exported in (source.to_dlpack(), source):
                    copy = pb_utils.Tensor.from_dlpack("Y", exported)
                    self.assertEqual(copy.triton_dtype(), source.triton_dtype())
                    self.assertEqual(copy.shape(), list(array.shape))
                    np.testing.assert_array_equal(copy.as_numpy(), array)

    def test_frees_what_it_exported(self) -> None:
        from nereid_host import dlpack

        tensor = pb_utils.Tensor("X", np.zeros(4, np.float32))
        unused = tensor.to_dlpack()
        pb_utils.Tensor.from_dlpack("Y", tensor.to_dlpack())
        self.assertEqual(len(dlpack._exported), 1)
        del unused
        self.assertEqual(len(dlpack._exported), 0)

    def test_uses_a_capsule_once(self) -> None:
        capsule = pb_utils.Tensor("X", np.zeros(1, np.float32)).to_dlpack()
        pb_utils.Tensor.from_dlpack("Y", capsule)
        with self.assertRaisesRegex(pb_utils.TritonModelException, "unused DLPack capsule"):
            pb_utils.Tensor.from_dlpack("Y", capsule)

    def test_has_no_strings_in_dlpack(self) -> None:
        with self.assertRaisesRegex(pb_utils.TritonModelException, "no strings"):
            pb_utils.Tensor("X", np.array([b"a"], object)).to_dlpack()

    def test_reads_what_numpy_exports(self) -> None:
        array = np.arange(12, dtype=np.int32).reshape(3, 4)[::-1, ::2]
        if not hasattr(array, "__dlpack__"):
            self.skipTest("this numpy has no DLPack")
        tensor = pb_utils.Tensor.from_dlpack("X", array)
        np.testing.assert_array_equal(tensor.as_numpy(), array)


class BytesTest(unittest.TestCase):
    def test_writes_and_reads_elements(self) -> None:
        array = np.array([[b"", b"\xff\x00"], ["é", 5]], dtype=object)
        encoded = pb_utils.serialize_byte_tensor(array)
        assert encoded is not None
        decoded = pb_utils.deserialize_bytes_tensor(encoded.item())
        self.assertEqual(decoded.tolist(), [b"", b"\xff\x00", "é".encode(), b"5"])

    def test_takes_numpy_strings(self) -> None:
        for array in (np.array([b"a", b"bc"]), np.array(["a", "bc"])):
            encoded = datatypes.encode_bytes_elements(array)
            self.assertEqual(encoded, b"\1\0\0\0a\2\0\0\0bc")

    def test_serializes_nothing_to_none(self) -> None:
        self.assertIsNone(pb_utils.serialize_byte_tensor(np.zeros(0, object)))

    def test_refuses_numbers(self) -> None:
        with self.assertRaisesRegex(pb_utils.TritonModelException, "expected strings"):
            pb_utils.serialize_byte_tensor(np.zeros(1))


class WireTest(unittest.TestCase):
    def test_requests_are_read_as_they_were_written(self) -> None:
        tensors = [
            pb_utils.Tensor("A", np.arange(3, dtype=np.int16)),
            pb_utils.Tensor("B", np.array([b"x", b"yz"], object)),
            pb_utils.Tensor("C", np.zeros((0, 2), np.float64)),
        ]
        for correlation in (0, 2**63 + 1, "séq"):
            parameters = {"s": "é", "b": True, "i": -(2**62), "f": 0.25}
            payload = joined(
                wire.encode_request("id1", 3, 2**40, correlation, 7, ["O"], parameters, tensors)
            )
            form, (request,) = decode_requests(payload, wire.HeadReader(["X"]), None)
            self.assertEqual(form, 0)
            self.assertEqual(request.request_id(), "id1")
            self.assertEqual(request.flags(), 3)
            self.assertEqual(request.timeout(), 2**40)
            self.assertEqual(request.correlation_id(), correlation)
            self.assertEqual(request.requested_output_names(), ["O"])
            self.assertEqual(request._parameters, parameters)
            for tensor, read in zip(tensors, request.inputs()):
                self.assertEqual(read.name(), tensor.name())
                np.testing.assert_array_equal(read.as_numpy(), tensor.as_numpy())
                found = pb_utils.get_input_tensor_by_name(request, tensor.name())
                assert found is not None
                np.testing.assert_array_equal(found.as_numpy(), tensor.as_numpy())
            self.assertIsNone(pb_utils.get_input_tensor_by_name(request, "Z"))

    def test_responses_are_read_as_they_were_written(self) -> None:
        tensor = pb_utils.Tensor("A", np.arange(5, dtype=np.uint8))
        response = pb_utils.InferenceResponse([tensor], parameters={"n": 1})
        payload = joined(wire.encode_results([response._result(frozenset("A"))]))
        read = decode_response(payload, 0, wire.HeadReader(()))
        self.assertFalse(read.has_error())
        self.assertEqual(read.parameters(), '{"n": 1}')
        output = pb_utils.get_output_tensor_by_name(read, "A")
        assert output is not None
        np.testing.assert_array_equal(output.as_numpy(), tensor.as_numpy())

    def test_durations_are_steps_of_100_ns_up_to_the_largest_that_fits(self) -> None:
        result = pb_utils.InferenceResponse([])._result(frozenset())
        payload = joined(wire.encode_results([result] * 3, [99, 100_199, 10**15]))
        steps = [
            wire.RESULT_RECORD.unpack_from(payload, 8 + 16 * index)[3] for index in range(3)
        ]
        self.assertEqual(steps, [0, 1001, 2**32 - 1])

    def test_remembers_a_bounded_number_of_heads(self) -> None:
        reader = wire.HeadReader(())
        for value in range(2000):
            payload = joined(wire.encode_request("", 0, 0, 0, value, [], {}, []))
            _, (request,) = decode_requests(payload, reader, None)
            self.assertEqual(request._head.priority, value)
        self.assertLessEqual(len(reader._heads), 512)


class HelpersTest(unittest.TestCase):
    def test_maps_types(self) -> None:
        self.assertIs(pb_utils.triton_string_to_numpy("TYPE_FP32"), np.float32)
        self.assertIs(pb_utils.triton_string_to_numpy("TYPE_STRING"), np.object_)
        self.assertIs(pb_utils.triton_to_numpy_type(11), np.float32)
        self.assertIs(pb_utils.triton_to_numpy_type("INT8"), np.int8)
        self.assertEqual(pb_utils.numpy_to_triton_type(np.float32), 11)
        self.assertEqual(pb_utils.numpy_to_triton_type(np.object_), 13)

    def test_looks_into_configurations(self) -> None:
        config = {
            "input": [{"name": "A", "dims": [1]}],
            "output": [{"name": "B"}],
            "model_transaction_policy": {"decoupled": True},
        }
        found = pb_utils.get_input_config_by_name(config, "A")
        self.assertEqual(found, {"name": "A", "dims": [1]})
        self.assertIsNone(pb_utils.get_input_config_by_name(config, "B"))
        self.assertEqual(pb_utils.get_output_config_by_name(config, "B"), {"name": "B"})
        self.assertTrue(pb_utils.using_decoupled_model_transaction_policy(config))
        self.assertFalse(pb_utils.using_decoupled_model_transaction_policy({}))

    def test_works_only_inside_a_server(self) -> None:
        with self.assertRaisesRegex(pb_utils.TritonModelException, "inside a model"):
            pb_utils.Logger.log_info("x")
        request = pb_utils.InferenceRequest(model_name="m")
        with self.assertRaisesRegex(pb_utils.TritonModelException, "inside a model"):
            request.exec()
        with self.assertRaisesRegex(pb_utils.TritonModelException, "made by the model"):
            request.get_response_sender()

    def test_checks_arguments_of_requests_and_responses(self) -> None:
        cases = [
            (lambda: pb_utils.InferenceRequest(inputs=[1]), "inputs must hold Tensor objects"),
            (lambda: pb_utils.InferenceRequest(correlation_id=1.5), "correlation_id must be"),
            (lambda: pb_utils.InferenceRequest(parameters={"a": []}), "parameter 'a'"),
            (lambda: pb_utils.InferenceRequest(parameters={"a": 2**63}), "64 bits"),
            (lambda: pb_utils.InferenceResponse([1]), "output_tensors must hold Tensor"),
            (lambda: pb_utils.InferenceResponse([], error=1), "error must be a TritonError"),
            (lambda: pb_utils.InferenceResponse([], parameters=[1]), "must be a dict"),
        ]
        for make, message in cases:
            with self.subTest(message):
                with self.assertRaisesRegex(pb_utils.TritonModelException, message):
                    make()

    def test_errors_have_codes(self) -> None:
        error = pb_utils.TritonError("gone", pb_utils.TritonError.NOT_FOUND)
        read = errors.decode_error(memoryview(errors.encode_error(error.message(), error.code())))
        self.assertEqual((read.message(), read.code()), ("gone", 2))
        self.assertEqual(pb_utils.TritonError("x").code(), pb_utils.TritonError.INTERNAL)


class BatchRunnerTest(unittest.TestCase):
    def request(self, rows: int, columns: int = 2) -> Any:
        array = np.full((rows, columns), rows, np.float32)
        return pb_utils.InferenceRequest(inputs=[pb_utils.Tensor("A", array)])

    def test_joins_rows_of_equal_form(self) -> None:
        seen: List[List[int]] = []

        def run(inputs: Any) -> Any:
            array = inputs["A"].as_numpy()
            seen.append(list(array.shape))
            return {"B": pb_utils.Tensor("B", array * 2)}

        runner = framework.BatchRunner(run, has_batching=True)
        responses = runner.execute([self.request(1), self.request(2)])
        self.assertEqual(seen, [[3, 2]])
        self.assertEqual([r.output_tensors()[0].shape() for r in responses], [[1, 2], [2, 2]])
        runner.execute([self.request(1), self.request(1, 3)])
        self.assertEqual(seen[1:], [[1, 2], [1, 3]])

    def test_refuses_outputs_without_the_rows(self) -> None:
        runner = framework.BatchRunner(
            lambda inputs: {"B": pb_utils.Tensor("B", np.zeros(1))}, has_batching=True
        )
        with self.assertRaisesRegex(pb_utils.TritonModelException, "expected 3 rows"):
            runner.execute([self.request(1), self.request(2)])


if __name__ == "__main__":
    unittest.main()
