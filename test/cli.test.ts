import { describe, expect, it } from 'vitest';
import { readCommandLine } from '../src/cli.js';

const repository = '--model-repository=/models';

function serve(argv: readonly string[], env: Record<string, string>) {
  const commandLine = readCommandLine(argv, env);
  if (commandLine.type !== 'serve') throw new Error(JSON.stringify(commandLine));
  return commandLine.options;
}

describe('readCommandLine', () => {
  it('takes --name=value and --name value', () => {
    const options = serve(['--model-repository', '/a', '--http-port', '8100', '--id=x=y'], {});
    expect(options.repository.locations).toEqual(['/a']);
    expect(options.http.port).toBe(8100);
    expect(options.id).toBe('x=y');
  });

  it('takes a switch without a value, and leaves the next argument alone', () => {
    const options = serve([repository, '--disable-auto-complete-config', '--http-port=8100'], {});
    expect(options.repository.isAutoCompleteDisabled).toBe(true);
    expect(options.http.port).toBe(8100);
    expect(
      serve([repository, '--disable-auto-complete-config=false'], {}).repository
        .isAutoCompleteDisabled,
    ).toBe(false);
  });

  it('reads options from the environment, the command line first', () => {
    const env = {
      NEREID_MODEL_REPOSITORY: '/a;s3://b/c',
      NEREID_HTTP_PORT: '8100',
      NEREID_ID: 'env',
    };
    const options = serve(['--id=flag'], env);
    expect(options.repository.locations).toEqual(['/a', 's3://b/c']);
    expect(options.http.port).toBe(8100);
    expect(options.id).toBe('flag');
  });

  it('takes an empty variable as not set', () => {
    expect(serve([repository], { NEREID_HTTP_PORT: '', PORT: '' }).http.port).toBe(8000);
  });

  it('takes PORT only where no HTTP port is named', () => {
    expect(serve([repository], { PORT: '3000' }).http.port).toBe(3000);
    expect(serve([repository, '--http-port=8100'], { PORT: '3000' }).http.port).toBe(8100);
    expect(serve([repository], { PORT: '3000', NEREID_HTTP_PORT: '8200' }).http.port).toBe(8200);
  });

  it('refuses a PORT that is no port, naming the variable', () => {
    const commandLine = readCommandLine([repository], { PORT: 'http' });
    expect(commandLine).toMatchObject({ type: 'invalid' });
    expect(JSON.stringify(commandLine)).toContain('Bad option: \\"PORT\\"');
  });

  it('names the variable that a bad value came from', () => {
    const commandLine = readCommandLine([repository], {
      NEREID_GRPC_PORT: 'x',
    });
    expect(JSON.stringify(commandLine)).toContain('Bad option: \\"NEREID_GRPC_PORT\\"');
  });

  it('warns of variables that look like options and are none, but not of what Kubernetes sets', () => {
    const { warnings } = serve([repository], {
      NEREID_HTTP_PROT: '1',
      NEREID_PORT: 'tcp://10.0.0.1:8000',
      NEREID_PORT_8000_TCP: 'tcp://10.0.0.1:8000',
      NEREID_SERVICE_HOST: '10.0.0.1',
    });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('NEREID_HTTP_PROT is not an option of this server (did you mean');
  });

  it.each([
    [['--no-such-flag=1'], "unrecognized option '--no-such-flag=1'"],
    [['--http-prot=1'], "unrecognized option '--http-prot=1' (did you mean '--http-port'?)"],
    [['-x'], "unrecognized option '-x'"],
    [['models'], "unexpected argument 'models'"],
  ])('says how to get help and then the fault of %j', (argv, message) => {
    const commandLine = readCommandLine([repository, ...argv], {});
    if (commandLine.type !== 'invalid') throw new Error('accepted');
    expect(commandLine.text).toBe(`Usage: nereid [options]; --help lists them.\n${message}\n`);
  });

  it('says which option lacks its value', () => {
    const commandLine = readCommandLine([repository, '--http-port'], {});
    if (commandLine.type !== 'invalid') throw new Error('accepted');
    expect(commandLine.text).toContain("option '--http-port' requires an argument");
  });

  it('refuses a start without a repository', () => {
    const commandLine = readCommandLine([], {});
    if (commandLine.type !== 'invalid') throw new Error('accepted');
    expect(commandLine.text).toContain('--model-repository must be specified');
  });

  it('prints help for every option, whatever else is given', () => {
    const commandLine = readCommandLine(['--http-port=abc', '--help'], {});
    if (commandLine.type !== 'help') throw new Error('not help');
    expect(commandLine.text.startsWith('Usage: nereid [options]\n  --help\n\tPrint usage')).toBe(
      true,
    );
    expect(commandLine.text).toContain('\nHTTP:\n  --allow-http <boolean>\n\t');
    expect(commandLine.text).toContain('  --disable-auto-complete-config\n');
    expect(Math.max(...commandLine.text.split('\n').map((line) => line.length))).toBeLessThan(100);
  });

  it('asks for the version', () => {
    expect(readCommandLine(['--version'], {})).toEqual({ type: 'version' });
  });
});
