import { describe, expect, it } from 'vitest';
import { isSameListing } from '../../src/repository/fingerprint.js';
import { misplacementMessage } from '../../src/repository/misplacement.js';
import { filesOf, readStoreListing, type StoreModel } from '../../src/repository/store-listing.js';
import { storedObject } from './memory-store.js';

function read(keys: readonly string[], prefix = '') {
  return readStoreListing(
    prefix,
    keys.map((key) => storedObject(`${prefix}${key}`, key.endsWith('/') ? '' : key)),
  );
}

function versionsOf(model: StoreModel | undefined): readonly string[] {
  return [...(model?.listing.versions.keys() ?? [])].sort();
}

function pathsOf(model: StoreModel | undefined, versions: readonly string[]): readonly string[] {
  return model === undefined ? [] : filesOf(model, versions).map(({ path }) => path);
}

describe('readStoreListing', () => {
  it('makes models of the folders below the prefix', () => {
    const { models, warnings } = read(
      ['README.md', 'a/config.pbtxt', 'a/1/model.onnx', 'a/10/x/y.bin', 'b/labels.txt', '.c/1/x'],
      'team/models/',
    );
    expect([...models.keys()]).toEqual(['a', 'b']);
    expect(versionsOf(models.get('a'))).toEqual(['1', '10']);
    expect(models.get('a')?.listing.configFingerprint).not.toBe('');
    expect(models.get('b')?.listing.restFingerprint).not.toBe('');
    expect(warnings).toEqual([]);
  });

  it('copies the asked versions and what belongs to none', () => {
    const { models } = read(['a/1/m', 'a/2/m', 'a/2/x/y', 'a/config.pbtxt', 'a/warmup/in']);
    expect(pathsOf(models.get('a'), ['2'])).toEqual(['2/m', '2/x/y', 'config.pbtxt', 'warmup/in']);
    expect(pathsOf(models.get('a'), [])).toEqual(['config.pbtxt', 'warmup/in']);
  });

  it('leaves out temporary and hidden files, but not the folders they are in', () => {
    const { models } = read(['a/1/.keep', 'a/2/model.onnx.tmp', 'a/3/.cache/x', 'a/.git/HEAD']);
    expect(versionsOf(models.get('a'))).toEqual(['1', '2', '3']);
    expect(models.get('a')?.files).toEqual([]);
    expect(models.get('a')?.folders).toEqual(['1', '2', '3']);
  });

  it.each([
    ['a model', ['a/'], []],
    ['the versions of an ensemble', ['a/', 'a/config.pbtxt', 'a/1/', 'a/2/'], ['1', '2']],
    ['no version whose files are still to come', ['a/1/model.onnx', 'a/2/'], ['1']],
    ['a version with its files', ['a/1/model.onnx', 'a/2/', 'a/2/model.onnx'], ['1', '2']],
    ['a version with only a hidden file', ['a/1/model.onnx', 'a/2/.keep'], ['1', '2']],
  ])('takes directory markers for %s', (_name, keys, versions) => {
    const { models, warnings } = read(keys);
    expect(versionsOf(models.get('a'))).toEqual(versions);
    expect(models.get('a')?.files.some(({ path }) => path.endsWith('/'))).toBe(false);
    expect(warnings).toEqual([]);
  });

  it.each(['a/../../etc/passwd', 'a/1/..', 'a/./x', 'a//x', 'a/1\\x', 'a/x\0y', '../a/x'])(
    'ignores the key %j, which is no path below the model',
    (key) => {
      const { models, warnings } = read([key, 'a/1/model.onnx']);
      expect(pathsOf(models.get('a'), ['1'])).toEqual(['1/model.onnx']);
      expect(warnings).toEqual([`ignore object '${key}', whose key cannot be the path of a file`]);
    },
  );

  it('ignores an object where a folder has to be', () => {
    const { models, warnings } = read(['a/1', 'a/1/model.onnx', 'a/1/x', 'a/1/x/y']);
    expect(pathsOf(models.get('a'), ['1'])).toEqual(['1/model.onnx', '1/x/y']);
    expect(warnings).toEqual([
      "ignore object 'a/1', because there are objects below it",
      "ignore object 'a/1/x', because there are objects below it",
    ]);
  });

  it('ignores keys that begin with a slash below the prefix', () => {
    expect(read(['/a/1/model.onnx']).models.size).toBe(0);
  });

  it('tells contents by tag and size, and by time only where there is no tag', () => {
    const object = storedObject('a/1/m', 'x');
    const listingOf = (change: Partial<typeof object>) =>
      readStoreListing('', [{ ...object, ...change }]).models.get('a')?.listing;
    const same = (left: Partial<typeof object>, right: Partial<typeof object>) =>
      isSameListing(listingOf(left), listingOf(right));
    expect(same({}, { modifiedMs: 5 })).toBe(true);
    expect(same({}, { etag: 'other' })).toBe(false);
    expect(same({}, { bytes: 2 })).toBe(false);
    expect(same({ etag: '' }, { etag: '', modifiedMs: 5 })).toBe(false);
  });

  it.each([
    [['a/config.pbtxt'], undefined],
    [['a/1/m'], undefined],
    [[], undefined],
    [['README.md'], undefined],
    [['a/labels.txt'], undefined],
    [['a/config.pbtxt', 'config.pbtxt'], undefined],
    [['config.pbtxt', '1/m'], "looks like the folder of a model, because it has a file 'config"],
    [['1/m', '2/m'], "looks like the folder of a model, because it has a version folder '1'"],
    [['models/a/config.pbtxt'], "its folder 'models' does; give that folder"],
    [['x/readme/y', 'models/a/3/m'], "its folder 'models' does; give that folder"],
  ])('sketches %j for a hint', (keys, hint) => {
    const message = misplacementMessage('s3://b', read(keys).sketch);
    if (hint === undefined) {
      expect(message).toBeUndefined();
    } else {
      expect(message).toContain(hint);
    }
  });
});
